//! One test's own tables, wire, clock and reports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::sqs::SqsBatchResponse;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::{
    Clock as _, Done, DynamoDbStore, Error, Handler, HandlerError, Idempotency, IdempotencyBuilder,
    Outcome, Reason, Report, SqsBatch, SqsService, Transaction,
};
use uuid::Uuid;

use super::{ManualClock, Payment, Wire, context, create_table, logs, pay, server};

pub type Item = HashMap<String, AttributeValue>;

/// The key of [`Lab::run`].
pub const KEY: &str = "k";

/// What [`Lab::run`] comes to.
pub type Paid = Result<Done<String>, Error>;

pub const CONSUMER: &str = "tests";

#[derive(Clone, Debug)]
pub struct Tables {
    pub records: String,
    pub payments: String,
    pub accounts: String,
}

/// What an observer was told of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    pub message_id: Option<String>,
    pub record_id: Option<String>,
    pub outcome: Outcome,
    pub reason: Option<Reason>,
    pub error: Option<String>,
    pub result: Option<String>,
    pub requests: u32,
}

pub struct Lab {
    pub tables: Tables,
    pub wire: Wire,
    pub clock: ManualClock,
    /// To look at the store, beside the wire.
    pub direct: Client,
    /// Over the wire.
    pub client: Client,
    reports: Arc<Mutex<Vec<Reported>>>,
}

impl Lab {
    pub async fn new() -> Self {
        logs::install();
        let clock = ManualClock::new();
        let wire = Wire::new(clock.clone());
        let direct_wire = Wire::new(clock.clone());
        let direct = server::client(aws_smithy_runtime_api::shared::IntoShared::into_shared(
            direct_wire,
        ))
        .await;
        let client = server::client(aws_smithy_runtime_api::shared::IntoShared::into_shared(
            wire.clone(),
        ))
        .await;
        let unique = Uuid::new_v4().simple().to_string();
        let tables = Tables {
            records: format!("records-{unique}"),
            payments: format!("payments-{unique}"),
            accounts: format!("accounts-{unique}"),
        };
        for table in [&tables.records, &tables.payments, &tables.accounts] {
            create_table(&direct, table, &["id"]).await;
        }
        Self {
            tables,
            wire,
            clock,
            direct,
            client,
            reports: Arc::default(),
        }
    }

    /// The store over the wire, with one SDK attempt a request, so that each fault is seen.
    pub fn store(&self) -> DynamoDbStore {
        DynamoDbStore::new(self.client.clone(), &self.tables.records).attempts(1)
    }

    pub fn builder(&self) -> IdempotencyBuilder {
        self.builder_on(self.store())
    }

    pub fn builder_on(&self, store: impl lambda_idempotency::store::Store) -> IdempotencyBuilder {
        let reports = Arc::clone(&self.reports);
        Idempotency::builder(store)
            .consumer(CONSUMER)
            .clock(self.clock.clone())
            .observer(move |report: &Report| {
                reports.lock().unwrap().push(Reported {
                    message_id: report.message_id.clone(),
                    record_id: report.record_id.as_deref().map(str::to_owned),
                    outcome: report.outcome,
                    reason: report.reason,
                    error: report.error.as_ref().map(|error| format!("{error:?}")),
                    result: report.result.clone(),
                    requests: report.requests,
                });
            })
    }

    pub fn idempotency(&self) -> Idempotency {
        self.builder().build().unwrap()
    }

    /// One call under the key `k` that pays 10 into the account `a` and returns "paid".
    pub async fn pay(&self, idempotency: &Idempotency) -> Paid {
        self.pay_for(idempotency, &()).await
    }

    /// As [`pay`](Self::pay), for this payload.
    pub async fn pay_for(
        &self,
        idempotency: &Idempotency,
        payload: &(impl serde::Serialize + Sync),
    ) -> Paid {
        self.run(idempotency, payload, async || {
            Ok(pay(&self.tables, &self.payment()).returning("paid".to_owned()))
        })
        .await
    }

    /// One call under the key `k` that does this work, in an invocation of 30 s.
    pub async fn run<Fut>(
        &self,
        idempotency: &Idempotency,
        payload: &(impl serde::Serialize + Sync),
        work: impl FnOnce() -> Fut,
    ) -> Paid
    where
        Fut: Future<Output = Result<Transaction<String>, HandlerError>> + Send,
    {
        let deadline = self.clock.now() + Duration::from_secs(30);
        idempotency.run(KEY, payload, deadline, |_| work()).await
    }

    /// One call under this key that does this work, in an invocation of 30 s.
    pub async fn run_under<Fut>(
        &self,
        idempotency: &Idempotency,
        key: &str,
        work: impl FnOnce() -> Fut,
    ) -> Paid
    where
        Fut: Future<Output = Result<Transaction<String>, HandlerError>> + Send,
    {
        let deadline = self.clock.now() + Duration::from_secs(30);
        idempotency.run(key, &(), deadline, |_| work()).await
    }

    /// The payment `p` of 10 into the account `a`.
    pub fn payment(&self) -> Payment {
        Payment {
            id: "p".into(),
            account: "a".into(),
            amount: 10,
        }
    }

    /// Processes a batch in an invocation that has 30 s.
    pub async fn process<H: Handler<B>, B: Send + 'static>(
        &self,
        service: &SqsService<H, B>,
        batch: SqsBatch,
    ) -> Result<SqsBatchResponse, Error> {
        let deadline = self.clock.now() + Duration::from_secs(30);
        service.process(batch, &context(deadline)).await
    }

    /// The ids that come back.
    pub async fn failures<H: Handler<B>, B: Send + 'static>(
        &self,
        service: &SqsService<H, B>,
        batch: SqsBatch,
    ) -> Vec<String> {
        let response = self.process(service, batch).await.unwrap();
        let failures = response.batch_item_failures.into_iter();
        failures.map(|failure| failure.item_identifier).collect()
    }

    /// The reports since the last call of this.
    pub fn take_reports(&self) -> Vec<Reported> {
        std::mem::take(&mut *self.reports.lock().unwrap())
    }

    /// The one report since the last call of this.
    pub fn take_report(&self) -> Reported {
        let mut reports = self.take_reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports.remove(0)
    }

    pub async fn record(&self, key: &str) -> Option<Item> {
        self.item(&self.tables.records, &format!("{CONSUMER}#{key}"))
            .await
    }

    pub async fn put_record(&self, key: &str, attributes: &[(&str, AttributeValue)]) {
        let id = AttributeValue::S(format!("{CONSUMER}#{key}"));
        let mut put = self
            .direct
            .put_item()
            .table_name(&self.tables.records)
            .item("id", id);
        for (name, value) in attributes {
            put = put.item(*name, value.clone());
        }
        put.send().await.unwrap();
    }

    pub async fn delete_record(&self, key: &str) {
        self.direct
            .delete_item()
            .table_name(&self.tables.records)
            .key("id", AttributeValue::S(format!("{CONSUMER}#{key}")))
            .send()
            .await
            .unwrap();
    }

    pub async fn item(&self, table: &str, id: &str) -> Option<Item> {
        let answer = self
            .direct
            .get_item()
            .table_name(table)
            .key("id", AttributeValue::S(id.to_owned()))
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        answer.item
    }

    /// What is in the account, 0 if there is none.
    pub async fn balance(&self, account: &str) -> u64 {
        match self.item(&self.tables.accounts, account).await {
            Some(item) => item["balance"].as_n().unwrap().parse().unwrap(),
            None => 0,
        }
    }

    /// How many items a table has.
    pub async fn count(&self, table: &str) -> usize {
        let answer = self
            .direct
            .scan()
            .table_name(table)
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        answer.items.unwrap_or_default().len()
    }
}
