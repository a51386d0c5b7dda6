//! Events of Lambda's limit, and batches beyond it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, CompletionCondition, GroupAnswer,
    GroupRequest, ReleaseAnswer, ReleaseRequest, Seen, Status, Store, StoreError,
};
use lambda_idempotency::{HandlerError, Idempotency, Message, SqsBatch, SqsService, Transaction};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::messages;
use crate::support::{Fault, Lab, Record, Step, batch};

/// What an invocation carries at most.
const MOST_BYTES: usize = 6 * 1024 * 1024;

/// How many there are at once, and were at most.
#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Alive {
    fn begin(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }
}

thread_local! {
    static ALIVE: Arc<Alive> = Arc::default();
}

/// A decoded body that counts while it lives. (A test's runtime has one thread.)
struct Counted {
    bytes: usize,
    alive: Arc<Alive>,
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let alive = ALIVE.with(Arc::clone);
        alive.begin();
        Ok(Self {
            bytes: text.len(),
            alive,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Completes each message without writes, and adds up the bytes of the bodies.
fn counting(
    idempotency: &Idempotency,
    bytes: &Arc<AtomicUsize>,
) -> SqsService<impl lambda_idempotency::Handler<Counted> + use<>, Counted> {
    let bytes = Arc::clone(bytes);
    idempotency.sqs(move |message: Message<Counted>| {
        bytes.fetch_add(message.body.bytes, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            // It lives as long as its handler.
            drop(message);
            Ok::<Transaction, HandlerError>(Transaction::new())
        }
    })
}

fn most_alive() -> usize {
    ALIVE.with(|alive| {
        assert_eq!(alive.now.load(Ordering::Relaxed), 0);
        alive.most.load(Ordering::Relaxed)
    })
}

/// The event as Lambda sends it: texts of this length, in as many records as fit.
fn event(body_bytes: usize) -> (String, usize) {
    let record = |n: usize| Record::new(&format!("m-{n:05}"), json!("x".repeat(body_bytes))).0;
    let each = record(0).to_string().len() + 1;
    let count = (MOST_BYTES - 20) / each;
    let records: Vec<Value> = (0..count).map(record).collect();
    let event = json!({ "Records": records }).to_string();
    assert!((MOST_BYTES - each - 20..=MOST_BYTES).contains(&event.len()));
    (event, count)
}

/// A store in memory, for more messages than a test can wait for; each request lets others go first.
#[derive(Clone, Default)]
struct Rows(Arc<State>);

#[derive(Default)]
struct State {
    rows: Mutex<HashMap<String, Status>>,
    requests: AtomicUsize,
    alive: Alive,
}

impl Rows {
    async fn change<T>(&self, change: impl FnOnce(&mut HashMap<String, Status>) -> T) -> T {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.alive.begin();
        tokio::task::yield_now().await;
        let changed = change(&mut self.0.rows.lock().unwrap());
        self.0.alive.now.fetch_sub(1, Ordering::Relaxed);
        changed
    }

    fn completed(&self) -> usize {
        let rows = self.0.rows.lock().unwrap();
        rows.values()
            .filter(|status| **status == Status::Completed)
            .count()
    }
}

/// Completes a record that is there if its key was claimed, and only then.
fn complete(rows: &mut HashMap<String, Status>, request: &CommitRequest) {
    let completion = request.completion.as_ref().unwrap();
    let before = rows.insert(completion.record_id.clone(), Status::Completed);
    let is_claimed = matches!(completion.condition, CompletionCondition::Held);
    assert_eq!(before, is_claimed.then_some(Status::InProgress));
}

impl Store for Rows {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        let id = request.record_id.clone();
        let before = self.change(|rows| rows.insert(id, Status::InProgress));
        assert_eq!(before.await, None, "no key comes twice here");
        ClaimAnswer::Claimed
    }

    async fn commit(&self, request: &CommitRequest) -> CommitAnswer {
        self.change(|rows| complete(rows, request)).await;
        CommitAnswer::Committed
    }

    async fn commit_group(&self, request: &GroupRequest) -> GroupAnswer {
        let commits = request.commits.iter();
        self.change(|rows| commits.for_each(|commit| complete(rows, commit)))
            .await;
        GroupAnswer::Committed
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        self.change(|rows| rows.remove(&request.record_id)).await;
        ReleaseAnswer::Released
    }

    async fn read(&self, _: &str) -> Result<Seen, StoreError> {
        unreachable!("no answer leaves a record out")
    }
}

/// Delivers an event of these texts, in as many records as fit, on this store.
async fn deliver_whole(idempotency: &Idempotency, lab: &Lab, body_bytes: usize) -> usize {
    let bytes = Arc::new(AtomicUsize::new(0));
    let service = counting(idempotency, &bytes);
    let (event, count) = event(body_bytes);
    let batch: SqsBatch = serde_json::from_str(&event).unwrap();
    assert!(lab.failures(&service, batch).await.is_empty());
    assert_eq!(bytes.load(Ordering::Relaxed), count * body_bytes);
    assert!(most_alive() <= 10);
    count
}

#[tokio::test]
async fn an_event_of_six_megabytes_of_large_messages_is_done() {
    let lab = Lab::new().await;
    let count = deliver_whole(&lab.idempotency(), &lab, 100_000).await;
    assert!(count > 60, "{count}");
    assert_eq!(lab.records().await, count);
    let at_once = lab.requests_of(10, &[Step::Complete]);
    assert_eq!(lab.wire.most_in_flight(), at_once);
}

#[tokio::test]
async fn an_event_of_six_megabytes_of_small_messages_is_done() {
    let lab = Lab::new().await;
    let rows = Rows::default();
    let idempotency = lab.builder_on(rows.clone()).build().unwrap();
    let count = deliver_whole(&idempotency, &lab, 10).await;
    assert!(count > 9_000, "{count}");
    assert_eq!(rows.completed(), count);
}

fn ten_thousand() -> SqsBatch {
    let ids = messages(10_000);
    batch(ids.iter().map(|id| Record::new(id, json!("x"))))
}

#[tokio::test]
async fn of_ten_thousand_messages_each_is_done_and_ten_at_once_are_under_way() {
    let lab = Lab::new().await;
    let rows = Rows::default();
    let bytes = Arc::default();
    let service = counting(&lab.builder_on(rows.clone()).build().unwrap(), &bytes);
    assert!(lab.failures(&service, ten_thousand()).await.is_empty());
    assert_eq!(bytes.load(Ordering::Relaxed), 10_000);
    assert_eq!(rows.completed(), 10_000);
    // Claim and completion of each, and nothing else.
    let of_ten = lab.requests_of(10, &[Step::Claim, Step::Complete]);
    assert_eq!(rows.0.requests.load(Ordering::Relaxed), 1_000 * of_ten);
    let at_once = lab.requests_of(10, &[Step::Complete]);
    assert_eq!(rows.0.alive.most.load(Ordering::Relaxed), at_once);
    assert!(most_alive() <= 10);
}

#[tokio::test]
async fn of_ten_thousand_messages_all_are_reported_after_a_few_requests_to_a_store_that_is_down() {
    let lab = Lab::new().await;
    let bytes = Arc::default();
    let service = counting(&lab.idempotency(), &bytes);
    lab.store_fails(&Fault::Refused);
    for _ in 0..3 {
        assert_eq!(
            lab.failures(&service, ten_thousand()).await,
            messages(10_000)
        );
        // A claim and its giving back, or a commit and a look at what came of it: of the first ten and
        // at most two more.
        assert!(lab.wire.take_operations().len() <= 24);
        assert!(most_alive() <= 10);
    }
    // Each was given one byte.
    let ran = bytes.load(Ordering::Relaxed);
    assert!(ran <= 3 * lab.mode.handlers_without_a_key(12), "{ran} ran");
}
