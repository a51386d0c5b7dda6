//! One test's own tables, wire, clock and reports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_lambda_events::sqs::SqsBatchResponse;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::shared::IntoShared as _;
use lambda_idempotency::{
    Clock as _, Done, DynamoDbStore, Error, Handler, HandlerError, Idempotency, IdempotencyBuilder,
    Outcome, Reason, Report, SqsBatch, SqsService, Transaction,
};

use super::tables::OwnTables;
use super::{ManualClock, Mode, Payment, Wire, context, logs, pay, server};

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
    /// Each payment adds to an item of its own of its account, so that payments into one account
    /// can be in one transaction.
    pub spreads_accounts: bool,
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
    pub mode: Mode,
    pub tables: Tables,
    pub wire: Wire,
    pub clock: ManualClock,
    /// To look at the store, beside the wire.
    pub direct: Client,
    /// Over the wire.
    pub client: Client,
    own_tables: OwnTables,
    reports: Arc<Mutex<Vec<Reported>>>,
}

impl Lab {
    /// In the mode of this run.
    pub async fn new() -> Self {
        Self::in_mode(Mode::of_this_run()).await
    }

    pub async fn with_clock(clock: ManualClock) -> Self {
        Self::with(Mode::of_this_run(), clock).await
    }

    /// For what is there only where keys are claimed before their handlers run.
    pub async fn claiming_first() -> Self {
        Self::in_mode(Mode::ClaimFirst).await
    }

    pub async fn claiming_first_with_clock(clock: ManualClock) -> Self {
        Self::with(Mode::ClaimFirst, clock).await
    }

    /// For what is there only where keys are claimed by the commit.
    pub async fn claiming_at_commit() -> Self {
        Self::in_mode(Mode::AtCommit).await
    }

    async fn in_mode(mode: Mode) -> Self {
        Self::with(mode, ManualClock::new()).await
    }

    async fn with(mode: Mode, clock: ManualClock) -> Self {
        logs::install();
        let wire = Wire::new(clock.clone());
        let client = server::client(wire.clone().into_shared()).await;
        let direct = server::client(server::http()).await;
        let own_tables = OwnTables::default();
        let tables = Tables {
            records: own_tables.create(&direct, "records", &["id"]).await,
            payments: own_tables.create(&direct, "payments", &["id"]).await,
            accounts: own_tables.create(&direct, "accounts", &["id"]).await,
            spreads_accounts: mode == Mode::Grouped,
        };
        Self {
            mode,
            tables,
            wire,
            clock,
            direct,
            client,
            own_tables,
            reports: Arc::default(),
        }
    }

    /// Another table of this test's own, whose key are these attributes.
    pub async fn create_table(&self, what: &str, key: &[&str]) -> String {
        self.own_tables.create(&self.direct, what, key).await
    }

    /// The store over the wire, with one SDK attempt a request, so that each fault is seen. The SDK
    /// measures real time, and is given enough of it that a loaded machine makes no faults.
    pub fn store(&self) -> DynamoDbStore {
        DynamoDbStore::new(self.client.clone(), &self.tables.records)
            .attempts(1)
            .attempt_timeout(Duration::from_secs(60))
    }

    pub fn builder(&self) -> IdempotencyBuilder {
        self.builder_on(self.store())
    }

    pub fn builder_on(&self, store: impl lambda_idempotency::store::Store) -> IdempotencyBuilder {
        let reports = Arc::clone(&self.reports);
        let mut builder = Idempotency::builder(store);
        if self.mode == Mode::Grouped {
            // Without it each payment would commit alone.
            builder = builder.key_attributes(&self.tables.payments, ["id"]);
        }
        builder
            .consumer(CONSUMER)
            .claim(self.mode.claim())
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
        self.process_until(deadline, service, batch).await
    }

    /// Processes a batch in an invocation that ends at this time.
    pub async fn process_until<H: Handler<B>, B: Send + 'static>(
        &self,
        deadline: SystemTime,
        service: &SqsService<H, B>,
        batch: impl Into<SqsBatch>,
    ) -> Result<SqsBatchResponse, Error> {
        let service = self.mode.served(service.clone());
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
        let items = self.items(&self.tables.accounts).await;
        let of_account = items.iter().filter(|item| {
            let id = item["id"].as_s().unwrap();
            id.split('/').next() == Some(account)
        });
        of_account
            .map(|item| item["balance"].as_n().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// How many items a table has.
    pub async fn count(&self, table: &str) -> usize {
        self.items(table).await.len()
    }

    /// All items of a table.
    pub async fn items(&self, table: &str) -> Vec<Item> {
        let pages = self
            .direct
            .scan()
            .table_name(table)
            .consistent_read(true)
            .into_paginator()
            .items()
            .send();
        pages.collect::<Result<_, _>>().await.unwrap()
    }
}
