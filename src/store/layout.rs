//! How records lie in their table: items, keys, and the conditions of the protocol as expressions.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::item::AttributeNames;
use super::request::{ClaimRequest, Completion, CompletionCondition};
use crate::record::{FencingToken, Moment, Status};
use crate::write::Item;

/// What `Record::is_free` says, and that there may be no record.
const FREE: &str = "attribute_not_exists(#id) OR #expiration < :now_seconds \
     OR (#status = :in_progress AND #lease < :now_millis)";
const HELD: &str = "#status = :in_progress AND #token = :token";
const COMPLETE: &str = "SET #status = :completed, #expiration = :expiration REMOVE #lease";
const COMPLETE_WITH_DATA: &str =
    "SET #status = :completed, #expiration = :expiration, #data = :data REMOVE #lease";

/// The table of records and the names in it.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) table: String,
    pub(super) names: AttributeNames,
    pub(super) partition: Option<Partition>,
}

/// The static partition key of a table whose sort key is the record's id.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    pub(super) attribute: String,
    pub(super) value: String,
    pub(super) sort_attribute: String,
}

/// An expression with what its placeholders stand for.
pub(super) struct Expression {
    pub(super) text: &'static str,
    pub(super) names: HashMap<String, String>,
    pub(super) values: Item,
}

/// The write that completes a record.
pub(super) enum CompletingWrite {
    /// Of a record that the attempt holds. The condition's placeholders are among the update's.
    Update {
        key: Item,
        update: Expression,
        condition: &'static str,
    },
    /// Of a record that is put as a whole.
    Put { item: Item, condition: Expression },
}

impl Layout {
    /// Where the record's id is: the partition key, or the sort key of a composite one.
    pub(super) fn id_attribute(&self) -> &str {
        match &self.partition {
            Some(partition) => &partition.sort_attribute,
            None => &self.names.id,
        }
    }

    pub(super) fn key(&self, record_id: &str) -> Item {
        let mut key = HashMap::with_capacity(8);
        key.insert(self.id_attribute().to_owned(), text(record_id));
        if let Some(partition) = &self.partition {
            key.insert(partition.attribute.clone(), text(&partition.value));
        }
        key
    }

    pub(super) fn claimed_item(&self, claim: &ClaimRequest) -> Item {
        let mut item = self.key(&claim.record_id);
        let names = &self.names;
        item.insert(names.status.clone(), text(Status::InProgress.as_str()));
        item.insert(names.token.clone(), text(claim.token.as_str()));
        item.insert(names.lease.clone(), number(claim.lease.as_millis()));
        item.insert(names.expiration.clone(), number(claim.expiration));
        if let Some(fingerprint) = &claim.fingerprint {
            item.insert(names.fingerprint.clone(), text(fingerprint.as_str()));
        }
        item
    }

    pub(super) fn completing_write(&self, completion: &Completion) -> CompletingWrite {
        match completion.condition {
            CompletionCondition::Held => CompletingWrite::Update {
                key: self.key(&completion.record_id),
                update: self.completion(completion),
                condition: HELD,
            },
            CompletionCondition::Free { now } => CompletingWrite::Put {
                item: self.completed_item(completion),
                condition: self.free(now),
            },
        }
    }

    /// The condition of a claim.
    pub(super) fn free(&self, now: Moment) -> Expression {
        let names = &self.names;
        Expression {
            text: FREE,
            names: placeholders([
                ("#id", self.id_attribute()),
                ("#expiration", &names.expiration),
                ("#status", &names.status),
                ("#lease", &names.lease),
            ]),
            values: HashMap::from([
                (":now_seconds".to_owned(), number(now.seconds)),
                (":now_millis".to_owned(), number(now.millis)),
                (":in_progress".to_owned(), text(Status::InProgress.as_str())),
            ]),
        }
    }

    /// The condition of a release.
    pub(super) fn held(&self, token: &FencingToken) -> Expression {
        Expression {
            text: HELD,
            names: placeholders([
                ("#status", &self.names.status),
                ("#token", &self.names.token),
            ]),
            values: HashMap::from([
                (":in_progress".to_owned(), text(Status::InProgress.as_str())),
                (":token".to_owned(), text(token.as_str())),
            ]),
        }
    }

    fn completed_item(&self, completion: &Completion) -> Item {
        let mut item = self.key(&completion.record_id);
        let names = &self.names;
        item.insert(names.status.clone(), text(Status::Completed.as_str()));
        item.insert(names.token.clone(), text(completion.token.as_str()));
        item.insert(names.expiration.clone(), number(completion.expiration));
        if let Some(data) = &completion.data {
            item.insert(names.data.clone(), text(data));
        }
        if let Some(fingerprint) = &completion.fingerprint {
            item.insert(names.fingerprint.clone(), text(fingerprint.as_str()));
        }
        item
    }

    fn completion(&self, completion: &Completion) -> Expression {
        let names = &self.names;
        let mut update = Expression {
            text: COMPLETE,
            names: placeholders([
                ("#status", &names.status),
                ("#expiration", &names.expiration),
                ("#lease", &names.lease),
                ("#token", &names.token),
            ]),
            values: HashMap::from([
                (":completed".to_owned(), text(Status::Completed.as_str())),
                (":in_progress".to_owned(), text(Status::InProgress.as_str())),
                (":expiration".to_owned(), number(completion.expiration)),
                (":token".to_owned(), text(completion.token.as_str())),
            ]),
        };
        if let Some(data) = &completion.data {
            update.text = COMPLETE_WITH_DATA;
            update.names.insert("#data".to_owned(), names.data.clone());
            update.values.insert(":data".to_owned(), text(data));
        }
        update
    }
}

fn placeholders<const N: usize>(names: [(&str, &str); N]) -> HashMap<String, String> {
    names
        .into_iter()
        .map(|(placeholder, name)| (placeholder.to_owned(), name.to_owned()))
        .collect()
}

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}
