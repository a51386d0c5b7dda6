//! A store in memory. The conditions on records are the library's own; `likeness` compares every
//! answer with that of a DynamoDB.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use lambda_idempotency::Write;
use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Completion, CompletionCondition,
    Failure, GroupAnswer, GroupRequest, Record, ReleaseAnswer, ReleaseRequest, Seen, Status,
    StoreError,
};

use crate::expressions::{Item, Placeholders};
use crate::items::has_an_item_twice;

/// How long DynamoDB remembers a client token.
pub const TOKEN_WINDOW: Duration = Duration::from_secs(10 * 60);

/// One request to the store.
#[derive(Clone, Debug)]
pub enum Request {
    Claim(ClaimRequest),
    Commit(CommitRequest),
    Group(GroupRequest),
    Release(ReleaseRequest),
    Read(String),
}

/// What came of one.
#[derive(Debug)]
pub enum Answer {
    Claim(ClaimAnswer),
    Commit(CommitAnswer),
    Group(GroupAnswer),
    Release(ReleaseAnswer),
    Read(Result<Seen, StoreError>),
}

impl Request {
    /// The records that it is about.
    pub fn record_ids(&self) -> Vec<&str> {
        match self {
            Self::Claim(claim) => vec![&claim.record_id],
            Self::Commit(_) | Self::Group(_) => {
                let completions = self
                    .commits()
                    .into_iter()
                    .flat_map(|commit| &commit.completion);
                completions
                    .map(|completion| completion.record_id.as_str())
                    .collect()
            }
            Self::Release(release) => vec![&release.record_id],
            Self::Read(record_id) => vec![record_id],
        }
    }

    /// The commits in it.
    pub fn commits(&self) -> Vec<&CommitRequest> {
        match self {
            Self::Commit(commit) => vec![commit],
            Self::Group(group) => group.commits.iter().map(Arc::as_ref).collect(),
            Self::Claim(_) | Self::Release(_) | Self::Read(_) => Vec::new(),
        }
    }

    /// The business writes in it.
    pub fn writes(&self) -> Vec<&Write> {
        let commits = self.commits().into_iter();
        commits.flat_map(|commit| &commit.writes).collect()
    }

    /// The answer that says that the request failed.
    pub fn failed(&self, failure: Failure, message: &str) -> Answer {
        let error = StoreError::new(failure, message);
        match self {
            Self::Claim(_) => Answer::Claim(ClaimAnswer::Failed(error)),
            Self::Commit(_) => Answer::Commit(CommitAnswer::Failed(error)),
            // Whatever refuses a group for good may be due to one commit in it.
            Self::Group(_) => Answer::Group(match failure {
                Failure::Rejected => GroupAnswer::Undecided(error),
                _ => GroupAnswer::Failed(error),
            }),
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
            Self::Group(GroupAnswer::Cancelled(answers)) => {
                let hidden = answers.into_iter().map(|answer| match answer {
                    Some(CommitAnswer::RecordRefused(_)) => {
                        Some(CommitAnswer::RecordRefused(Seen::Nothing))
                    }
                    other => other,
                });
                Self::Group(GroupAnswer::Cancelled(hidden.collect()))
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
    commits: Vec<CommitRequest>,
    is_applied: bool,
    since: Duration,
}

/// Why nothing of a transaction was applied.
enum NotApplied {
    TokenReused(StoreError),
    /// Of each commit, what speaks against it.
    Cancelled(Vec<Option<CommitAnswer>>),
}

impl Memory {
    pub fn record(&self, record_id: &str) -> Option<&Record> {
        self.records.get(record_id)
    }

    pub fn put_record(&mut self, record_id: String, record: Record) {
        self.records.insert(record_id, record);
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
            Request::Group(group) => Answer::Group(self.commit_group(group, now)),
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
        match self.transact(&commit.client_token, &[commit], now) {
            Ok(()) => CommitAnswer::Committed,
            Err(NotApplied::TokenReused(error)) => CommitAnswer::TokenReused(error),
            Err(NotApplied::Cancelled(answers)) => answers.into_iter().flatten().next().unwrap(),
        }
    }

    fn commit_group(&mut self, group: &GroupRequest, now: Duration) -> GroupAnswer {
        let commits: Vec<&CommitRequest> = group.commits.iter().map(Arc::as_ref).collect();
        if has_an_item_twice(&commits) {
            let message = "a transaction can't have an item twice";
            return GroupAnswer::Undecided(StoreError::new(Failure::Rejected, message));
        }
        match self.transact(&group.client_token, &commits, now) {
            Ok(()) => GroupAnswer::Committed,
            Err(NotApplied::TokenReused(error)) => GroupAnswer::Undecided(error),
            Err(NotApplied::Cancelled(answers)) => GroupAnswer::Cancelled(answers),
        }
    }

    /// Applies all of these commits or none, and under one client token once.
    fn transact(
        &mut self,
        client_token: &str,
        commits: &[&CommitRequest],
        now: Duration,
    ) -> Result<(), NotApplied> {
        let known = self.transactions.get(client_token);
        if let Some(known) = known.filter(|known| now <= known.since + TOKEN_WINDOW) {
            let is_same = known.commits.len() == commits.len()
                && known
                    .commits
                    .iter()
                    .zip(commits)
                    .all(|(k, c)| is_same(k, c));
            if !is_same {
                let message = "the client token stands for another transaction";
                let error = StoreError::new(Failure::Rejected, message);
                return Err(NotApplied::TokenReused(error));
            }
            if known.is_applied {
                return Ok(());
            }
        }
        let refusals: Vec<_> = commits.iter().map(|commit| self.refusal(commit)).collect();
        let is_applied = refusals.iter().all(Option::is_none);
        let transacted = Transacted {
            commits: commits.iter().copied().cloned().collect(),
            is_applied,
            since: now,
        };
        self.transactions
            .insert(client_token.to_owned(), transacted);
        if !is_applied {
            return Err(NotApplied::Cancelled(refusals));
        }
        for commit in commits {
            if let Some(completion) = &commit.completion {
                self.complete(completion);
            }
            for write in &commit.writes {
                self.write(write.action());
            }
        }
        Ok(())
    }

    /// What speaks against this commit, if anything does.
    fn refusal(&self, commit: &CommitRequest) -> Option<CommitAnswer> {
        if let Some(completion) = &commit.completion
            && !completion.applies_to(self.record(&completion.record_id))
        {
            let seen = self.seen(&completion.record_id);
            return Some(CommitAnswer::RecordRefused(seen));
        }
        let actions: Vec<&TransactWriteItem> = commit.writes.iter().map(Write::action).collect();
        let failed: Vec<usize> = (0..actions.len())
            .filter(|at| !self.condition_holds(actions[*at]))
            .collect();
        (!failed.is_empty()).then_some(CommitAnswer::ConditionFailed {
            failed,
            incomparable: Vec::new(),
        })
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
