//! A store in memory. The conditions on records are the library's own; `likeness` compares every
//! answer with that of a DynamoDB.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use lambda_idempotency::Write;
use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Completion, CompletionCondition,
    Failure, Record, ReleaseAnswer, ReleaseRequest, Seen, Status, StoreError,
};

use crate::expressions::{Item, Placeholders};

/// How long DynamoDB remembers a client token.
pub const TOKEN_WINDOW: Duration = Duration::from_secs(10 * 60);

/// One request to the store.
#[derive(Clone, Debug)]
pub enum Request {
    Claim(ClaimRequest),
    Commit(CommitRequest),
    Release(ReleaseRequest),
    Read(String),
}

/// What came of one.
#[derive(Debug)]
pub enum Answer {
    Claim(ClaimAnswer),
    Commit(CommitAnswer),
    Release(ReleaseAnswer),
    Read(Result<Seen, StoreError>),
}

impl Request {
    /// The records that it is about.
    pub fn record_ids(&self) -> Vec<&str> {
        match self {
            Self::Claim(claim) => vec![&claim.record_id],
            Self::Commit(commit) => {
                let completion = commit.completion.iter();
                completion
                    .map(|completion| completion.record_id.as_str())
                    .collect()
            }
            Self::Release(release) => vec![&release.record_id],
            Self::Read(record_id) => vec![record_id],
        }
    }

    /// The business writes in it.
    pub fn writes(&self) -> &[Write] {
        match self {
            Self::Commit(commit) => &commit.writes,
            Self::Claim(_) | Self::Release(_) | Self::Read(_) => &[],
        }
    }

    /// The answer that says that the request failed.
    pub fn failed(&self, failure: Failure, message: &str) -> Answer {
        let error = StoreError::new(failure, message);
        match self {
            Self::Claim(_) => Answer::Claim(ClaimAnswer::Failed(error)),
            Self::Commit(_) => Answer::Commit(CommitAnswer::Failed(error)),
            Self::Release(_) => Answer::Release(ReleaseAnswer::Failed(error)),
            Self::Read(_) => Answer::Read(Err(error)),
        }
    }
}

impl Answer {
    /// A refusal that does not show the record.
    pub fn hidden(self) -> Self {
        match self {
            Self::Claim(ClaimAnswer::Refused(_)) => {
                Self::Claim(ClaimAnswer::Refused(Seen::Nothing))
            }
            Self::Commit(CommitAnswer::RecordRefused(_)) => {
                Self::Commit(CommitAnswer::RecordRefused(Seen::Nothing))
            }
            Self::Release(ReleaseAnswer::Refused(_)) => {
                Self::Release(ReleaseAnswer::Refused(Seen::Nothing))
            }
            other => other,
        }
    }
}

#[derive(Default)]
pub struct Memory {
    records: BTreeMap<String, Record>,
    /// Items by their attribute `id`.
    tables: BTreeMap<String, BTreeMap<String, Item>>,
    /// The transactions that the client tokens stand for.
    transactions: HashMap<String, Transacted>,
}

struct Transacted {
    request: CommitRequest,
    is_applied: bool,
    since: Duration,
}

impl Memory {
    pub fn record(&self, record_id: &str) -> Option<&Record> {
        self.records.get(record_id)
    }

    pub fn item(&self, table: &str, id: &str) -> Option<&Item> {
        self.tables.get(table)?.get(id)
    }

    pub fn put(&mut self, table: &str, item: Item) {
        let id = item["id"].as_s().unwrap().clone();
        let table = self.tables.entry(table.to_owned()).or_default();
        table.insert(id, item);
    }

    /// Applies a request at this time, as one step.
    pub fn apply(&mut self, request: &Request, now: Duration) -> Answer {
        match request {
            Request::Claim(claim) => Answer::Claim(self.claim(claim)),
            Request::Commit(commit) => Answer::Commit(self.commit(commit, now)),
            Request::Release(release) => Answer::Release(self.release(release)),
            Request::Read(record_id) => Answer::Read(Ok(self.seen(record_id))),
        }
    }

    fn claim(&mut self, claim: &ClaimRequest) -> ClaimAnswer {
        if !claim.applies_to(self.record(&claim.record_id)) {
            return ClaimAnswer::Refused(self.seen(&claim.record_id));
        }
        let mut record = Record::new(Status::InProgress);
        record.token = Some(claim.token.clone());
        record.lease = Some(claim.lease);
        record.expiration = Some(claim.expiration);
        record.fingerprint = claim.fingerprint.clone();
        self.records.insert(claim.record_id.clone(), record);
        ClaimAnswer::Claimed
    }

    fn release(&mut self, release: &ReleaseRequest) -> ReleaseAnswer {
        if !release.applies_to(self.record(&release.record_id)) {
            return ReleaseAnswer::Refused(self.seen(&release.record_id));
        }
        self.records.remove(&release.record_id);
        ReleaseAnswer::Released
    }

    fn commit(&mut self, commit: &CommitRequest, now: Duration) -> CommitAnswer {
        // A single write has no client token.
        if commit.writes.is_empty() {
            return match &commit.completion {
                Some(completion) => self.complete(completion),
                None => CommitAnswer::Committed,
            };
        }
        let known = self.transactions.get(&commit.client_token);
        if let Some(known) = known.filter(|known| now <= known.since + TOKEN_WINDOW) {
            if !is_same(&known.request, commit) {
                let message = "the client token stands for another transaction";
                return CommitAnswer::TokenReused(StoreError::new(Failure::Rejected, message));
            }
            if known.is_applied {
                return CommitAnswer::Committed;
            }
        }
        let answer = self.transact(commit);
        let transacted = Transacted {
            request: commit.clone(),
            is_applied: matches!(answer, CommitAnswer::Committed),
            since: now,
        };
        let token = commit.client_token.clone();
        self.transactions.insert(token, transacted);
        answer
    }

    fn transact(&mut self, commit: &CommitRequest) -> CommitAnswer {
        if let Some(completion) = &commit.completion
            && !completion.applies_to(self.record(&completion.record_id))
        {
            return CommitAnswer::RecordRefused(self.seen(&completion.record_id));
        }
        let actions: Vec<&TransactWriteItem> = commit.writes.iter().map(Write::action).collect();
        let failed: Vec<usize> = (0..actions.len())
            .filter(|at| !self.condition_holds(actions[*at]))
            .collect();
        if !failed.is_empty() {
            return CommitAnswer::ConditionFailed {
                failed,
                incomparable: Vec::new(),
            };
        }
        if let Some(completion) = &commit.completion {
            self.complete(completion);
        }
        for action in actions {
            self.write(action);
        }
        CommitAnswer::Committed
    }

    fn complete(&mut self, completion: &Completion) -> CommitAnswer {
        let stored = self.records.get(&completion.record_id);
        if !completion.applies_to(stored) {
            return CommitAnswer::RecordRefused(self.seen(&completion.record_id));
        }
        let mut record = Record::new(Status::Completed);
        match completion.condition {
            CompletionCondition::Free { .. } => {
                record.token = Some(completion.token.clone());
                record.fingerprint = completion.fingerprint.clone();
                record.data = completion.data.clone();
            }
            // An update: what it does not name stays.
            _ => {
                let stored = stored.unwrap();
                record.token = stored.token.clone();
                record.fingerprint = stored.fingerprint.clone();
                record.data = completion.data.clone().or_else(|| stored.data.clone());
            }
        }
        record.expiration = Some(completion.expiration);
        self.records.insert(completion.record_id.clone(), record);
        CommitAnswer::Committed
    }

    fn seen(&self, record_id: &str) -> Seen {
        match self.record(record_id) {
            Some(record) => Seen::Record(record.clone()),
            None => Seen::Nothing,
        }
    }

    fn condition_holds(&self, action: &TransactWriteItem) -> bool {
        let (table, id, condition, placeholders) = if let Some(put) = &action.put {
            (
                &put.table_name,
                &put.item["id"],
                put.condition_expression.as_deref(),
                Placeholders {
                    names: put.expression_attribute_names.as_ref(),
                    values: put.expression_attribute_values.as_ref(),
                },
            )
        } else if let Some(update) = &action.update {
            (
                &update.table_name,
                &update.key["id"],
                update.condition_expression.as_deref(),
                Placeholders {
                    names: update.expression_attribute_names.as_ref(),
                    values: update.expression_attribute_values.as_ref(),
                },
            )
        } else if let Some(check) = &action.condition_check {
            (
                &check.table_name,
                &check.key["id"],
                Some(check.condition_expression.as_str()),
                Placeholders {
                    names: check.expression_attribute_names.as_ref(),
                    values: check.expression_attribute_values.as_ref(),
                },
            )
        } else {
            panic!("the simulation does not know the action {action:?}");
        };
        let item = self.item(table, id.as_s().unwrap());
        condition.is_none_or(|condition| placeholders.holds(condition, item))
    }

    fn write(&mut self, action: &TransactWriteItem) {
        if let Some(put) = &action.put {
            self.put(&put.table_name, put.item.clone());
        } else if let Some(update) = &action.update {
            let id = update.key["id"].as_s().unwrap();
            let table = self.tables.entry(update.table_name.clone()).or_default();
            let item = table
                .entry(id.clone())
                .or_insert_with(|| Item::from([("id".to_owned(), AttributeValue::S(id.clone()))]));
            let placeholders = Placeholders {
                names: update.expression_attribute_names.as_ref(),
                values: update.expression_attribute_values.as_ref(),
            };
            placeholders.update(&update.update_expression, item);
        }
    }
}

fn is_same(one: &CommitRequest, other: &CommitRequest) -> bool {
    let completions = match (&one.completion, &other.completion) {
        (Some(one), Some(other)) => {
            one.record_id == other.record_id
                && one.token == other.token
                && one.expiration == other.expiration
                && one.data == other.data
                && one.fingerprint == other.fingerprint
                && one.condition == other.condition
        }
        (None, None) => true,
        _ => false,
    };
    let writes = |commit: &CommitRequest| -> Vec<TransactWriteItem> {
        let writes = commit.writes.iter();
        writes.map(|write| write.action().clone()).collect()
    };
    completions && writes(one) == writes(other)
}
