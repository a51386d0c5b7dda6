//! One event through the sample function, as Lambda would send it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use aws_sdk_dynamodb::Client;
use lambda_idempotency::{Key, Outcome, Reason, Report, Retention, SqsBatch, SqsService};
use lambda_runtime::Context;
use payments::{Payment, Payments, Settings};

use crate::count::{Operations, Requests};
use crate::events::EventFile;
use crate::progress::Progress;
use crate::tables;

/// How long an invocation lasts: short, so that a handler that hangs is cut off while one looks on.
const INVOCATION: Duration = Duration::from_secs(3);
/// What a message adds to that, so that a large batch is not cut off on a slow machine.
const PER_MESSAGE: Duration = Duration::from_millis(20);
/// Lambda's own limit.
const LONGEST_INVOCATION: Duration = Duration::from_secs(15 * 60);

/// What became of one event.
pub(crate) struct Ended {
    pub(crate) event: String,
    /// In the order of the event's records.
    pub(crate) messages: Vec<MessageEnded>,
    /// What the function returned.
    pub(crate) answer: Result<Response, String>,
    pub(crate) requests: Operations,
    pub(crate) took: Duration,
}

/// What goes back to Lambda.
pub(crate) struct Response {
    pub(crate) json: serde_json::Value,
    /// How many messages come back.
    pub(crate) unfinished: usize,
}

/// What became of one message.
pub(crate) struct MessageEnded {
    position: Option<usize>,
    pub(crate) message_id: Option<String>,
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<Reason>,
    pub(crate) error: Option<String>,
    pub(crate) requests: u32,
}

impl From<&Report> for MessageEnded {
    fn from(report: &Report) -> Self {
        Self {
            position: report.position,
            message_id: report.message_id.clone(),
            outcome: report.outcome,
            reason: report.reason,
            error: report.error.as_ref().map(|error| format!("{error:#}")),
            requests: report.requests,
        }
    }
}

/// What the observer has been told in this invocation, in the order in which the messages ended.
type Told = Arc<Mutex<Vec<MessageEnded>>>;

/// The sample function, ready for events.
pub(crate) struct Runner {
    service: SqsService<Payments, Payment>,
    told: Told,
    requests: Requests,
}

impl Runner {
    pub(crate) fn new(
        client: Client,
        key: Option<Key>,
        requests: Requests,
    ) -> anyhow::Result<Self> {
        let settings = Settings {
            idempotency_table: tables::IDEMPOTENCY.to_owned(),
            payments_table: tables::PAYMENTS.to_owned(),
            accounts_table: tables::ACCOUNTS.to_owned(),
            retention: Retention::default(),
        };
        let told = Told::default();
        let observer = {
            let told = Arc::clone(&told);
            move |report: &Report| lock(&told).push(report.into())
        };
        let idempotency = payments::idempotency(client, &settings)
            .observer(observer)
            .build()
            .context("the library can't be set up")?;
        let mut service = payments::service(&idempotency, &settings)?;
        if let Some(key) = key {
            service = service.key(key);
        }
        Ok(Self {
            service,
            told,
            requests,
        })
    }

    /// Sends one event and waits for everything that comes of it.
    pub(crate) async fn run(&self, event: &EventFile) -> Ended {
        self.requests.take();
        let started = Instant::now();
        let answer = self.invoke(event).await;
        let took = started.elapsed();
        let mut messages = std::mem::take(&mut *lock(&self.told));
        messages.sort_by_key(|message| message.position);
        Ended {
            event: event.name.clone(),
            messages,
            answer,
            requests: self.requests.take(),
            took,
        }
    }

    async fn invoke(&self, event: &EventFile) -> Result<Response, String> {
        let batch: SqsBatch =
            serde_json::from_str(&event.json).map_err(|error| error.to_string())?;
        let messages = batch.len();
        let time = PER_MESSAGE.saturating_mul(u32::try_from(messages).unwrap_or(u32::MAX));
        let context = context((INVOCATION + time).min(LONGEST_INVOCATION));
        let progress = Progress::new(&event.name, messages, || lock(&self.told).len());
        let response = progress
            .during(self.service.process(batch, &context))
            .await
            .map_err(|error| format!("{error:#}"))?;
        Ok(Response {
            unfinished: response.batch_item_failures.len(),
            json: serde_json::to_value(&response).map_err(|error| error.to_string())?,
        })
    }
}

fn context(time: Duration) -> Context {
    let deadline = (SystemTime::now() + time).duration_since(UNIX_EPOCH);
    let mut context = Context::default();
    context.request_id = "demo".to_owned();
    context.deadline = deadline.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
    context
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sums over all events.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) by_outcome: BTreeMap<&'static str, Sum>,
    pub(crate) operations: Operations,
}

/// Messages of one outcome, and the requests that they took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) messages: u64,
    pub(crate) requests: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, ended: &Ended) {
        for message in &ended.messages {
            let sum = self.by_outcome.entry(message.outcome.as_str()).or_default();
            sum.messages += 1;
            sum.requests += u64::from(message.requests);
        }
        for (operation, requests) in &ended.requests {
            *self.operations.entry(operation.clone()).or_default() += requests;
        }
    }

    /// All messages, and the HTTP requests that were counted for them.
    pub(crate) fn all(&self) -> Sum {
        Sum {
            messages: self.by_outcome.values().map(|sum| sum.messages).sum(),
            requests: self.operations.values().sum(),
        }
    }
}

impl Sum {
    pub(crate) fn requests_per_message(self) -> f64 {
        if self.messages == 0 {
            return 0.0;
        }
        self.requests as f64 / self.messages as f64
    }
}
