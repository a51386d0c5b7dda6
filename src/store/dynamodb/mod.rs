//! The store on DynamoDB: builds each request, and hands each error to [`classify`].

mod commit;
mod one_try;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::StalledStreamProtectionConfig;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;

use self::one_try::TransactionsOnce;
use super::Store;
use super::answer::{ClaimAnswer, CommitAnswer, GroupAnswer, ReleaseAnswer, Seen, StoreError};
use super::classify;
use super::item::AttributeNames;
use super::layout::{Layout, Partition};
use super::request::{ClaimRequest, CommitRequest, GroupRequest, ReleaseRequest};
use crate::write::{Item, Write};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_ATTEMPTS: u32 = 2;

/// Records in a DynamoDB table with an `id` (string) as its partition key and TTL on `expiration`.
///
/// The client's credentials, Region, endpoint and HTTP stack are used as they are; its time-outs
/// and retries are set anew, because the protocol does most of the trying again itself: connect
/// 1 s, each attempt 2 s, 2 attempts a request (see [`attempts`](Self::attempts)).
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
    layout: Layout,
    connect_timeout: Duration,
    attempt_timeout: Duration,
    attempts: u32,
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
        let config = client.config().to_builder().interceptor(TransactionsOnce);
        Self {
            client: Client::from_conf(config.build()),
            layout: Layout {
                table: table.into(),
                names: AttributeNames::default(),
                partition: None,
            },
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            attempt_timeout: DEFAULT_ATTEMPT_TIMEOUT,
            attempts: DEFAULT_ATTEMPTS,
        }
        .configured()
    }

    /// Other names for the attributes.
    #[must_use]
    pub fn attribute_names(mut self, names: AttributeNames) -> Self {
        self.layout.names = names;
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
        self.layout.partition = Some(Partition {
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
    /// Default 2. Always 1 for a transaction, and for each commit of
    /// [`Claim::AtCommit`](crate::Claim::AtCommit): the protocol sends those again itself, because it
    /// has to see what came of each try.
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
            // It watches each request, to end one that stands still for 5 s: the time-outs are first.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .retry_config(retries)
            .build();
        self.client = Client::from_conf(config);
        self
    }

    /// A request's name for errors: DynamoDB's own words name no table.
    fn of_table(&self, request: &str) -> String {
        format!("{request} in the table {:?}", self.layout.table)
    }

    fn of_commits<'a>(&self, requests: impl IntoIterator<Item = &'a CommitRequest>) -> String {
        let mut tables = BTreeSet::new();
        for request in requests {
            tables.extend(request.completion.iter().map(|_| &*self.layout.table));
            tables.extend(request.writes.iter().map(Write::table));
        }
        let tables: Vec<String> = tables.iter().map(|table| format!("{table:?}")).collect();
        format!("the commit to the tables {}", tables.join(", "))
    }

    /// What a refusal shows of the record.
    fn seen(&self, item: Option<&Item>) -> Seen {
        match item {
            Some(item) if !item.is_empty() => self.layout.names.read(item),
            _ => Seen::Nothing,
        }
    }
}

impl Store for DynamoDbStore {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        let free = self.layout.free(request.now);
        let answer = self
            .client
            .put_item()
            .table_name(&self.layout.table)
            .set_item(Some(self.layout.claimed_item(request)))
            .condition_expression(free.text)
            .set_expression_attribute_names(Some(free.names))
            .set_expression_attribute_values(Some(free.values))
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

    async fn commit_group(&self, request: &GroupRequest) -> GroupAnswer {
        self.transact_group(request).await
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        let held = self.layout.held(&request.token);
        let answer = self
            .client
            .delete_item()
            .table_name(&self.layout.table)
            .set_key(Some(self.layout.key(&request.record_id)))
            .condition_expression(held.text)
            .set_expression_attribute_names(Some(held.names))
            .set_expression_attribute_values(Some(held.values))
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
            .table_name(&self.layout.table)
            .set_key(Some(self.layout.key(record_id)))
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
        if self.layout.table.trim().is_empty() {
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
        let partition_key = match &self.layout.partition {
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
        self.layout
            .names
            .check(self.layout.id_attribute(), partition_key)
    }
}

impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbStore")
            .field("layout", &self.layout)
            .field("connect_timeout", &self.connect_timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
