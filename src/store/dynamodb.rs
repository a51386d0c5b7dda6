//! The store on DynamoDB: builds each request, and hands each error to [`classify`].

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use super::Store;
use super::answer::{ClaimAnswer, CommitAnswer, ReleaseAnswer, Seen, StoreError};
use super::classify;
use super::item::AttributeNames;
use super::request::{ClaimRequest, CommitRequest, Completion, ReleaseRequest};
use crate::record::Status;
use crate::write::{Item, Write};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_ATTEMPTS: u32 = 2;

const CLAIM_CONDITION: &str = "attribute_not_exists(#id) OR #expiration < :now_seconds \
     OR (#status = :in_progress AND #lease < :now_millis)";
const HOLDS: &str = "#status = :in_progress AND #token = :token";
const COMPLETE: &str = "SET #status = :completed, #expiration = :expiration REMOVE #lease";
const COMPLETE_WITH_DATA: &str =
    "SET #status = :completed, #expiration = :expiration, #data = :data REMOVE #lease";

/// Records in a DynamoDB table with an `id` (string) as its partition key and TTL on `expiration`.
///
/// The client's credentials, Region, endpoint and HTTP stack are used as they are; its time-outs
/// and retries are set anew, because the protocol does most of the trying again itself: connect
/// 1 s, each attempt 2 s, 2 attempts a request.
///
/// ```
/// # fn store(client: aws_sdk_dynamodb::Client) {
/// use lambda_idempotency::DynamoDbStore;
///
/// let store = DynamoDbStore::new(client, "idempotency");
/// # }
/// ```
#[derive(Clone)]
pub struct DynamoDbStore {
    client: Client,
    table: String,
    names: AttributeNames,
    partition: Option<Partition>,
    connect_timeout: Duration,
    attempt_timeout: Duration,
    attempts: u32,
}

/// The static partition key of a table whose sort key is the record's id.
#[derive(Clone, Debug)]
struct Partition {
    attribute: String,
    value: String,
    sort_attribute: String,
}

impl DynamoDbStore {
    /// The IAM actions that the function's role needs on the table of records, and no others:
    /// release, a read where an answer shows no record, claim, commit. A transaction is
    /// [authorised by the actions of its writes][iam], so your own tables need theirs:
    /// `dynamodb:ConditionCheckItem` for a check.
    ///
    /// [iam]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
    pub const ACTIONS: [&'static str; 4] = [
        "dynamodb:DeleteItem",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
    ];

    /// A store in this table.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
            names: AttributeNames::default(),
            partition: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            attempt_timeout: DEFAULT_ATTEMPT_TIMEOUT,
            attempts: DEFAULT_ATTEMPTS,
        }
        .configured()
    }

    /// Other names for the attributes.
    #[must_use]
    pub fn attribute_names(mut self, names: AttributeNames) -> Self {
        self.names = names;
        self
    }

    /// For a table with a composite key: `partition_attribute` holds `partition_value` on every
    /// record, and the record's id is the sort key `sort_attribute`.
    ///
    /// All records are in one partition then, which DynamoDB serves with at most 1,000 write units
    /// a second; a table of its own has no such limit.
    #[must_use]
    pub fn composite_key(
        mut self,
        partition_attribute: impl Into<String>,
        partition_value: impl Into<String>,
        sort_attribute: impl Into<String>,
    ) -> Self {
        self.partition = Some(Partition {
            attribute: partition_attribute.into(),
            value: partition_value.into(),
            sort_attribute: sort_attribute.into(),
        });
        self
    }

    /// How long connecting may take. Default 1 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self.configured()
    }

    /// How long one attempt at a request may take. Default 2 s.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self.configured()
    }

    /// How many attempts the SDK makes at a request before the protocol decides what to do.
    /// Default 2.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self.configured()
    }

    fn configured(mut self) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(self.connect_timeout)
            .operation_attempt_timeout(self.attempt_timeout)
            .build();
        // The SDK does not accept zero; `check` reports it.
        let retries = RetryConfig::standard().with_max_attempts(self.attempts.max(1));
        let config = self
            .client
            .config()
            .to_builder()
            .timeout_config(timeouts)
            .retry_config(retries)
            .build();
        self.client = Client::from_conf(config);
        self
    }

    /// Where the record's id is: the partition key, or the sort key of a composite one.
    fn id_attribute(&self) -> &str {
        match &self.partition {
            Some(partition) => &partition.sort_attribute,
            None => &self.names.id,
        }
    }

    fn key(&self, record_id: &str) -> Item {
        let mut key = HashMap::with_capacity(2);
        key.insert(self.id_attribute().to_owned(), text(record_id));
        if let Some(partition) = &self.partition {
            key.insert(partition.attribute.clone(), text(&partition.value));
        }
        key
    }

    fn claimed_item(&self, request: &ClaimRequest) -> Item {
        let mut item = self.key(&request.record_id);
        let names = &self.names;
        item.insert(names.status.clone(), text(Status::InProgress.as_str()));
        item.insert(names.token.clone(), text(request.token.as_str()));
        item.insert(names.lease.clone(), number(request.lease.as_millis()));
        item.insert(names.expiration.clone(), number(request.expiration));
        if let Some(fingerprint) = &request.fingerprint {
            item.insert(names.fingerprint.clone(), text(fingerprint.as_str()));
        }
        item
    }

    /// The update that completes a record, for a transaction or alone.
    fn completion(&self, completion: &Completion) -> CompletionUpdate {
        let names = &self.names;
        let mut placeholders = HashMap::from([
            ("#status".to_owned(), names.status.clone()),
            ("#expiration".to_owned(), names.expiration.clone()),
            ("#lease".to_owned(), names.lease.clone()),
            ("#token".to_owned(), names.token.clone()),
        ]);
        let mut values = HashMap::from([
            (":completed".to_owned(), text(Status::Completed.as_str())),
            (":in_progress".to_owned(), text(Status::InProgress.as_str())),
            (":expiration".to_owned(), number(completion.expiration)),
            (":token".to_owned(), text(completion.token.as_str())),
        ]);
        let expression = match &completion.data {
            Some(data) => {
                placeholders.insert("#data".to_owned(), names.data.clone());
                values.insert(":data".to_owned(), text(data));
                COMPLETE_WITH_DATA
            }
            None => COMPLETE,
        };
        CompletionUpdate {
            key: self.key(&completion.record_id),
            expression,
            placeholders,
            values,
        }
    }

    async fn complete_alone(&self, completion: &Completion) -> CommitAnswer {
        let update = self.completion(completion);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(update.key))
            .update_expression(update.expression)
            .condition_expression(HOLDS)
            .set_expression_attribute_names(Some(update.placeholders))
            .set_expression_attribute_values(Some(update.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let error = match answer {
            Ok(_) => return CommitAnswer::Committed,
            Err(error) => error,
        };
        if let Some(UpdateItemError::ConditionalCheckFailedException(refusal)) =
            error.as_service_error()
        {
            return CommitAnswer::RecordRefused(self.seen(refusal.item()));
        }
        let impossible = classify::is_impossible(error.code());
        let error = classify::store_error(&self.of_table("completing the record"), error);
        if impossible {
            CommitAnswer::Impossible { write: None, error }
        } else {
            CommitAnswer::Failed(error)
        }
    }

    async fn transact(&self, request: &CommitRequest) -> CommitAnswer {
        let mut actions = Vec::with_capacity(request.writes.len() + 1);
        if let Some(completion) = &request.completion {
            let update = self.completion(completion);
            let update = Update::builder()
                .table_name(&self.table)
                .set_key(Some(update.key))
                .update_expression(update.expression)
                .condition_expression(HOLDS)
                .set_expression_attribute_names(Some(update.placeholders))
                .set_expression_attribute_values(Some(update.values))
                .return_values_on_condition_check_failure(
                    ReturnValuesOnConditionCheckFailure::AllOld,
                )
                .build();
            match update {
                Ok(update) => actions.push(TransactWriteItem::builder().update(update).build()),
                Err(error) => {
                    let failed = "the update of the record could not be built";
                    return CommitAnswer::Failed(
                        StoreError::new(super::Failure::Rejected, failed).with_source(error),
                    );
                }
            }
        }
        actions.extend(request.writes.iter().map(|write| write.action().clone()));
        let answer = self
            .client
            .transact_write_items()
            .set_transact_items(Some(actions))
            .client_request_token(&request.client_token)
            .send()
            .await;
        let error = match answer {
            Ok(_) => return CommitAnswer::Committed,
            Err(error) => error,
        };
        if let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            error.as_service_error()
        {
            let reasons = cancelled.cancellation_reasons();
            let has_record = request.completion.is_some();
            let answer = classify::cancelled(reasons, has_record, &request.writes, &self.names);
            if let Some(answer) = answer {
                return answer;
            }
        }
        let code = error.code().map(str::to_owned);
        let error = classify::store_error(&self.of_commit(request), error);
        match code.as_deref() {
            Some("IdempotentParameterMismatchException") => CommitAnswer::TokenReused(error),
            code if classify::is_impossible(code) => {
                CommitAnswer::Impossible { write: None, error }
            }
            _ => CommitAnswer::Failed(error),
        }
    }

    /// A request's name for errors: DynamoDB's own words name no table.
    fn of_table(&self, request: &str) -> String {
        format!("{request} in the table {:?}", self.table)
    }

    fn of_commit(&self, request: &CommitRequest) -> String {
        let record = request.completion.iter().map(|_| self.table.as_str());
        let tables: BTreeSet<&str> = record
            .chain(request.writes.iter().map(Write::table))
            .collect();
        let tables: Vec<String> = tables.iter().map(|table| format!("{table:?}")).collect();
        format!("the commit to the tables {}", tables.join(", "))
    }

    /// What a refusal shows of the record.
    fn seen(&self, item: Option<&Item>) -> Seen {
        match item {
            Some(item) if !item.is_empty() => self.names.read(item),
            _ => Seen::Nothing,
        }
    }
}

struct CompletionUpdate {
    key: Item,
    expression: &'static str,
    placeholders: HashMap<String, String>,
    values: Item,
}

impl Store for DynamoDbStore {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        let names = &self.names;
        let answer = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(self.claimed_item(request)))
            .condition_expression(CLAIM_CONDITION)
            .expression_attribute_names("#id", self.id_attribute())
            .expression_attribute_names("#expiration", &names.expiration)
            .expression_attribute_names("#status", &names.status)
            .expression_attribute_names("#lease", &names.lease)
            .expression_attribute_values(":now_seconds", number(request.now_seconds))
            .expression_attribute_values(":now_millis", number(request.now_millis))
            .expression_attribute_values(":in_progress", text(Status::InProgress.as_str()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let error = match answer {
            Ok(_) => return ClaimAnswer::Claimed,
            Err(error) => error,
        };
        if let Some(PutItemError::ConditionalCheckFailedException(refusal)) =
            error.as_service_error()
        {
            return ClaimAnswer::Refused(self.seen(refusal.item()));
        }
        ClaimAnswer::Failed(classify::store_error(&self.of_table("the claim"), error))
    }

    async fn commit(&self, request: &CommitRequest) -> CommitAnswer {
        match &request.completion {
            // Half the write units of a transaction.
            Some(completion) if request.writes.is_empty() => self.complete_alone(completion).await,
            None if request.writes.is_empty() => CommitAnswer::Committed,
            _ => self.transact(request).await,
        }
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        let answer = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(self.key(&request.record_id)))
            .condition_expression(HOLDS)
            .expression_attribute_names("#status", &self.names.status)
            .expression_attribute_names("#token", &self.names.token)
            .expression_attribute_values(":in_progress", text(Status::InProgress.as_str()))
            .expression_attribute_values(":token", text(request.token.as_str()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let error = match answer {
            Ok(_) => return ReleaseAnswer::Released,
            Err(error) => error,
        };
        if let Some(DeleteItemError::ConditionalCheckFailedException(refusal)) =
            error.as_service_error()
        {
            return ReleaseAnswer::Refused(self.seen(refusal.item()));
        }
        ReleaseAnswer::Failed(classify::store_error(&self.of_table("the release"), error))
    }

    async fn read(&self, record_id: &str) -> Result<Seen, StoreError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(self.key(record_id)))
            .consistent_read(true)
            .send()
            .await;
        match answer {
            Ok(output) => Ok(self.seen(output.item())),
            Err(error) => Err(classify::store_error(
                &self.of_table("reading the record"),
                error,
            )),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.table.trim().is_empty() {
            return Err(
                "the name of the idempotency table is empty: is the environment variable \
                        that should hold it set?"
                    .to_owned(),
            );
        }
        if self.attempts == 0 {
            return Err("`attempts(0)`: a request needs at least one attempt".to_owned());
        }
        if self.connect_timeout.is_zero() || self.attempt_timeout.is_zero() {
            return Err("a time-out of the store is zero: no request could succeed".to_owned());
        }
        let partition_key = match &self.partition {
            Some(partition) if partition.value.is_empty() => {
                return Err("the static partition key is empty: DynamoDB refuses that".to_owned());
            }
            Some(partition) => Some(partition.attribute.as_str()),
            None => None,
        };
        if self.client.config().region().is_none() {
            return Err(
                "the DynamoDB client has no Region: set AWS_REGION, or a Region in the \
                        client's configuration"
                    .to_owned(),
            );
        }
        self.names.check(self.id_attribute(), partition_key)
    }
}

impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbStore")
            .field("table", &self.table)
            .field("names", &self.names)
            .field("partition", &self.partition)
            .field("connect_timeout", &self.connect_timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}
