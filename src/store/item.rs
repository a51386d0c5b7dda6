//! The record as a DynamoDB item: its attributes' names, and reading one back.

use std::collections::BTreeSet;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use super::answer::Seen;
use crate::record::{FencingToken, Fingerprint, Lease, Record, Status};
use crate::write::Item;

/// The names of a record's attributes. The defaults are those of Powertools for AWS Lambda, so
/// that one table can serve both; only `claim_token` is this library's own.
///
/// ```
/// use lambda_idempotency::store::AttributeNames;
///
/// let names = AttributeNames::default().id("pk").expiration("ttl");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeNames {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) expiration: String,
    pub(super) lease: String,
    pub(super) data: String,
    pub(super) fingerprint: String,
    pub(super) token: String,
}

impl AttributeNames {
    /// The record's id, and the table's partition key. Default `id`.
    #[must_use]
    pub fn id(mut self, name: impl Into<String>) -> Self {
        self.id = name.into();
        self
    }

    /// `INPROGRESS` or `COMPLETED`. Default `status`.
    #[must_use]
    pub fn status(mut self, name: impl Into<String>) -> Self {
        self.status = name.into();
        self
    }

    /// The TTL attribute, in seconds since the epoch. Default `expiration`.
    #[must_use]
    pub fn expiration(mut self, name: impl Into<String>) -> Self {
        self.expiration = name.into();
        self
    }

    /// The end of the lease, in milliseconds since the epoch. Default `in_progress_expiration`.
    #[must_use]
    pub fn lease(mut self, name: impl Into<String>) -> Self {
        self.lease = name.into();
        self
    }

    /// The result as JSON text. Default `data`.
    #[must_use]
    pub fn data(mut self, name: impl Into<String>) -> Self {
        self.data = name.into();
        self
    }

    /// The payload's fingerprint. Default `validation`.
    #[must_use]
    pub fn fingerprint(mut self, name: impl Into<String>) -> Self {
        self.fingerprint = name.into();
        self
    }

    /// The fencing token. Default `claim_token`.
    #[must_use]
    pub fn token(mut self, name: impl Into<String>) -> Self {
        self.token = name.into();
        self
    }

    /// The error is a sentence.
    pub(super) fn check(&self, id: &str, partition_key: Option<&str>) -> Result<(), String> {
        let all = [
            Some(id),
            Some(&self.status),
            Some(&self.expiration),
            Some(&self.lease),
            Some(&self.data),
            Some(&self.fingerprint),
            Some(&self.token),
            partition_key,
        ];
        let mut seen = BTreeSet::new();
        for name in all.into_iter().flatten() {
            if name.is_empty() {
                return Err("an attribute name of the idempotency table is empty".to_owned());
            }
            if !seen.insert(name) {
                return Err(format!(
                    "two attributes of the idempotency table are named {name:?}: give each its own \
                     name"
                ));
            }
        }
        Ok(())
    }

    /// What an item is as a record.
    pub(super) fn read(&self, item: &Item) -> Seen {
        match self.record(item) {
            Ok(record) => Seen::Record(record),
            Err(problem) => Seen::Unreadable(problem.to_string()),
        }
    }

    fn record(&self, item: &Item) -> Result<Record, Problem<'_>> {
        let status = match text(item, &self.status)? {
            Some("INPROGRESS") => Status::InProgress,
            Some("COMPLETED") => Status::Completed,
            Some(_) => return Err(Problem::UnknownStatus(&self.status)),
            None => return Err(Problem::Missing(&self.status)),
        };
        let mut record = Record::new(status);
        record.token = text(item, &self.token)?.map(FencingToken::new);
        record.lease = number(item, &self.lease)?.map(Lease::until_millis);
        record.expiration = number(item, &self.expiration)?;
        record.data = text(item, &self.data)?.map(str::to_owned);
        record.fingerprint = text(item, &self.fingerprint)?.map(Fingerprint::new);
        Ok(record)
    }
}

impl Default for AttributeNames {
    fn default() -> Self {
        Self {
            id: "id".into(),
            status: "status".into(),
            expiration: "expiration".into(),
            lease: "in_progress_expiration".into(),
            data: "data".into(),
            fingerprint: "validation".into(),
            token: "claim_token".into(),
        }
    }
}

/// Why an item is no record of ours.
enum Problem<'a> {
    Missing(&'a str),
    UnknownStatus(&'a str),
    WrongType(&'a str, &'static str),
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "its attribute {name:?} is missing"),
            Self::UnknownStatus(name) => write!(
                f,
                "its attribute {name:?} is neither \"INPROGRESS\" nor \"COMPLETED\""
            ),
            Self::WrongType(name, wanted) => write!(f, "its attribute {name:?} is not {wanted}"),
        }
    }
}

fn text<'i, 'n>(item: &'i Item, name: &'n str) -> Result<Option<&'i str>, Problem<'n>> {
    match item.get(name) {
        None | Some(AttributeValue::Null(_)) => Ok(None),
        Some(AttributeValue::S(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::WrongType(name, "a string")),
    }
}

fn number<'n>(item: &Item, name: &'n str) -> Result<Option<u64>, Problem<'n>> {
    const WANTED: &str = "a whole number of at most 64 bits";
    match item.get(name) {
        None | Some(AttributeValue::Null(_)) => Ok(None),
        Some(AttributeValue::N(number)) => match number.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Problem::WrongType(name, WANTED)),
        },
        Some(_) => Err(Problem::WrongType(name, WANTED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(attributes: &[(&str, AttributeValue)]) -> Seen {
        let item = attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        AttributeNames::default().read(&item)
    }

    #[test]
    fn an_item_of_another_kind_is_named_not_guessed() {
        let status = || ("status", AttributeValue::S("INPROGRESS".into()));
        let number = |n: &str| AttributeValue::N(n.into());
        for (attributes, named) in [
            (vec![], "status"),
            (
                vec![("status", AttributeValue::S("EXPIRED".into()))],
                "status",
            ),
            (vec![("status", number("1"))], "status"),
            (vec![status(), ("claim_token", number("1"))], "claim_token"),
            (vec![status(), ("expiration", number("1.5"))], "expiration"),
            (
                vec![status(), ("expiration", number("1e400"))],
                "expiration",
            ),
            (
                vec![
                    status(),
                    ("in_progress_expiration", AttributeValue::S("1".into())),
                ],
                "in_progress_expiration",
            ),
            (vec![status(), ("data", AttributeValue::Bool(true))], "data"),
            (
                vec![status(), ("validation", AttributeValue::L(vec![]))],
                "validation",
            ),
        ] {
            match read(&attributes) {
                Seen::Unreadable(problem) => assert!(problem.contains(named), "{problem}"),
                other => panic!("{attributes:?} was read as {other:?}"),
            }
        }
    }

    #[test]
    fn names_must_differ_and_not_be_empty() {
        let names = AttributeNames::default;
        assert!(names().check("id", None).is_ok());
        let twice = names().token("id").check("id", None);
        assert!(twice.unwrap_err().contains("\"id\""));
        assert!(names().check("id", Some("id")).is_err());
        assert!(names().check("status", None).is_err());
        assert!(names().data("").check("id", None).is_err());
    }
}
