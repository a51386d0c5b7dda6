//! The store in memory answers as `DynamoDbStore` on a DynamoDB does, and leaves the same behind.
//! What the simulation shows of the one is worth as much as this is.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Completion, CompletionCondition,
    FencingToken, Fingerprint, GroupAnswer, GroupRequest, Lease, Moment, ReleaseAnswer,
    ReleaseRequest, Seen, Store,
};
use lambda_idempotency::{DynamoDbStore, Transaction, Write};
use uuid::Uuid;

use crate::clock::START;
use crate::expressions::Item;
use crate::items::target;
use crate::memory::{Answer, Memory, Request};
use crate::order::{Order, Tables, Work, text};
use crate::rng::Rng;
use crate::server;
use crate::tables::OwnTables;

const SEQUENCES: u64 = 12;
const STEPS: u64 = 100;

/// The two stores, and what they were asked.
struct Pair {
    memory: Memory,
    client: Client,
    store: DynamoDbStore,
    tables: Tables,
    rng: Rng,
    /// Names what belongs to this sequence.
    sequence: u64,
    commits: Vec<CommitRequest>,
    /// Positions of those that were applied.
    applied: Vec<usize>,
    groups: Vec<GroupRequest>,
    history: Vec<String>,
}

#[tokio::test]
async fn the_store_in_memory_answers_as_a_dynamodb_does() {
    let client = server::client(server::http()).await;
    let own_tables = OwnTables::default();
    let records = own_tables.create(&client, "records", &["id"]).await;
    let named = Tables::new(OwnTables::unique("simulation-"));
    for table in named.all() {
        own_tables.add(&client, &table, &["id"]).await;
    }
    let mut answers = std::collections::BTreeMap::new();
    for sequence in 0..SEQUENCES {
        let mut pair = Pair {
            memory: Memory::default(),
            store: DynamoDbStore::new(client.clone(), &records),
            client: client.clone(),
            tables: named.clone(),
            rng: Rng::new(sequence),
            sequence,
            commits: Vec::new(),
            applied: Vec::new(),
            groups: Vec::new(),
            history: Vec::new(),
        };
        for step in 0..STEPS {
            let kind = pair.step(step).await;
            *answers.entry(kind).or_insert(0) += 1;
        }
    }
    // Each answer that the simulation rests on has come, or nothing was compared.
    for expected in [
        "claimed",
        "claim refused",
        "committed",
        "commit refused",
        "conditions failed",
        "token reused",
        "group committed",
        "group cancelled",
        "group undecided",
        "released",
        "release refused",
        "read",
        "read nothing",
    ] {
        let times = answers.get(expected).copied().unwrap_or(0);
        assert!(times >= 10, "{expected} came {times} times: {answers:?}");
    }
}

impl Pair {
    async fn step(&mut self, step: u64) -> &'static str {
        if self.rng.percent(5) {
            self.open_gate().await;
        }
        let request = self.request(step);
        let real = self.ask(&request).await;
        let simulated = self.memory.apply(&request, std::time::Duration::ZERO);
        let (real, kind) = told(&real);
        let (simulated, _) = told(&simulated);
        self.history.push(format!("{request:?} -> {real}"));
        assert_eq!(simulated, real, "\n{}", self.history.join("\n"));
        if let Request::Commit(commit) = &request {
            if kind == "committed" && !commit.writes.is_empty() {
                self.applied.push(self.commits.len());
            }
            self.commits.push(commit.clone());
        }
        self.compare_what_is_stored(&request).await;
        kind
    }

    async fn ask(&self, request: &Request) -> Answer {
        match request {
            Request::Claim(claim) => Answer::Claim(self.store.claim(claim).await),
            Request::Commit(commit) => Answer::Commit(self.store.commit(commit).await),
            Request::Group(group) => Answer::Group(self.store.commit_group(group).await),
            Request::Release(release) => Answer::Release(self.store.release(release).await),
            Request::Read(record_id) => Answer::Read(self.store.read(record_id).await),
        }
    }

    async fn compare_what_is_stored(&mut self, request: &Request) {
        for record_id in request.record_ids() {
            let read = Request::Read(record_id.to_owned());
            let real = self.ask(&read).await;
            let simulated = self.memory.apply(&read, std::time::Duration::ZERO);
            let history = self.history.join("\n");
            assert_eq!(told(&simulated), told(&real), "\n{history}");
        }
        for write in request.writes() {
            let (table, id) = target(write);
            let real = self.client.get_item().table_name(table);
            let real = real.key("id", text(id)).consistent_read(true);
            let real: Option<Item> = real.send().await.unwrap().item;
            let history = self.history.join("\n");
            assert_eq!(self.memory.item(table, id), real.as_ref(), "\n{history}");
        }
    }

    async fn open_gate(&mut self) {
        let item: Item = [("id".to_owned(), text(&self.named("gate", 1)))].into();
        let put = self.client.put_item().table_name(self.tables.gates());
        put.set_item(Some(item.clone())).send().await.unwrap();
        self.memory.put(&self.tables.gates(), item);
    }

    fn named(&mut self, kind: &str, of: u64) -> String {
        format!("{kind}{}-{}", self.sequence, self.rng.below(of))
    }

    fn request(&mut self, step: u64) -> Request {
        let record_id = self.named("r", 2);
        let token = FencingToken::new(self.named("t", 2));
        match self.rng.below(14) {
            0..=2 => {
                let now = self.moment();
                let lease = Lease::until_millis(now.millis + 500 * self.rng.below(20));
                let expiration = now.seconds + self.rng.below(20);
                let mut claim = ClaimRequest::new(record_id, token, lease, expiration, now);
                claim.fingerprint = self.fingerprint();
                Request::Claim(claim)
            }
            3 | 4 => Request::Release(ReleaseRequest::new(record_id, token)),
            5 => Request::Read(record_id),
            6 if !self.commits.is_empty() => {
                let at = self.rng.index(self.commits.len());
                Request::Commit(self.commits[at].clone())
            }
            7 if !self.applied.is_empty() => {
                let at = self.rng.index(self.applied.len());
                let mut other = self.commits[self.applied[at]].clone();
                other.writes = self.writes(step);
                if other.writes.is_empty() {
                    other.writes = self.order(Work::Count, step).writes().to_vec();
                }
                Request::Commit(other)
            }
            8 | 9 => {
                let completion = self.completion(record_id, token);
                let completion = self.rng.percent(75).then_some(completion);
                let writes = self.writes(step);
                Request::Commit(CommitRequest::new(completion, client_token(step), writes))
            }
            10 if !self.groups.is_empty() => {
                let at = self.rng.index(self.groups.len());
                Request::Group(self.groups[at].clone())
            }
            _ => {
                let commits = (0..self.rng.between(2, 3)).map(|member| {
                    // Mostly records of their own.
                    let record_id = format!("{}-{member}", self.named("g", 2));
                    let record_id = match self.rng.percent(90) {
                        true => record_id,
                        false => self.named("r", 2),
                    };
                    let token = FencingToken::new(self.named("t", 2));
                    let completion = self.completion(record_id, token);
                    let writes = self.writes(step);
                    Arc::new(CommitRequest::new(
                        Some(completion),
                        client_token(step),
                        writes,
                    ))
                });
                let commits = commits.collect();
                let group = GroupRequest::new(client_token(step), commits);
                self.groups.push(group.clone());
                Request::Group(group)
            }
        }
    }

    fn completion(&mut self, record_id: String, token: FencingToken) -> Completion {
        let now = self.moment();
        let condition = match self.rng.percent(70) {
            true => CompletionCondition::Held,
            false => CompletionCondition::Free { now },
        };
        let expiration = now.seconds + self.rng.below(20);
        let mut completion = Completion::new(record_id, token, expiration, condition);
        if self.rng.percent(50) {
            completion.data = Some(format!("\"{}\"", self.rng.below(9)));
        }
        completion.fingerprint = self.fingerprint();
        completion
    }

    /// Near to one another, so that leases and records do end; and few, so that some end just now.
    fn moment(&mut self) -> Moment {
        let millis = START * 1_000 + 500 * self.rng.below(40);
        Moment {
            seconds: millis / 1_000,
            millis,
        }
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let which = self.rng.below(3);
        (which > 0).then(|| Fingerprint::new(format!("f{which}")))
    }

    fn writes(&mut self, run: u64) -> Vec<Write> {
        let account = self.named("a", 2);
        let amount = self.rng.between(1, 9);
        let work = match self.rng.below(7) {
            0 => return Vec::new(),
            1 => Work::Count,
            2 => Work::Deposit { account, amount },
            3 => Work::Withdraw { account, amount },
            4 => Work::Seat {
                seat: self.named("s", 4),
            },
            5 => Work::Profile {
                id: self.named("p", 2),
                version: amount,
            },
            _ => Work::Gate {
                gate: self.named("gate", 2),
            },
        };
        let transaction = self.order(work, run);
        // One of the transactions that it tries in turn.
        let mut chosen = &transaction;
        while let Some(alternative) = chosen.alternative()
            && self.rng.percent(50)
        {
            chosen = alternative;
        }
        chosen.writes().to_vec()
    }

    fn order(&mut self, work: Work, run: u64) -> Transaction<String> {
        let order = Order {
            key: self.named("k", 5),
            payload: "first".to_owned(),
            work,
        };
        order.transaction(&self.tables, run)
    }
}

/// Everything that an answer says, and its kind.
fn told(answer: &Answer) -> (String, &'static str) {
    let kind = match answer {
        Answer::Claim(ClaimAnswer::Claimed) => "claimed",
        Answer::Commit(CommitAnswer::Committed) => "committed",
        Answer::Release(ReleaseAnswer::Released) => "released",
        Answer::Claim(ClaimAnswer::Refused(seen)) => return (shown(seen), "claim refused"),
        Answer::Commit(CommitAnswer::RecordRefused(seen)) => {
            return (shown(seen), "commit refused");
        }
        Answer::Release(ReleaseAnswer::Refused(seen)) => return (shown(seen), "release refused"),
        Answer::Read(Ok(Seen::Nothing)) => "read nothing",
        Answer::Read(Ok(seen)) => return (shown(seen), "read"),
        Answer::Commit(CommitAnswer::TokenReused(_)) => "token reused",
        Answer::Commit(CommitAnswer::ConditionFailed { .. }) => {
            return (format!("{answer:?}"), "conditions failed");
        }
        Answer::Group(GroupAnswer::Committed) => "group committed",
        Answer::Group(GroupAnswer::Undecided(_)) => "group undecided",
        Answer::Group(GroupAnswer::Cancelled(answers)) => {
            let answers = answers.iter().map(|answer| match answer {
                Some(CommitAnswer::RecordRefused(seen)) => shown(seen),
                other => format!("{other:?}"),
            });
            let answers: Vec<String> = answers.collect();
            return (answers.join("; "), "group cancelled");
        }
        other => panic!("neither store should answer {other:?}"),
    };
    (kind.to_owned(), kind)
}

/// A new one.
fn client_token(step: u64) -> String {
    let token = format!("c{}-{step}", Uuid::new_v4().simple());
    token[..36.min(token.len())].to_owned()
}

fn shown(seen: &Seen) -> String {
    match seen {
        Seen::Record(record) => format!("{record:?} {:?}", record.data),
        other => format!("{other:?}"),
    }
}
