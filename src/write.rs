//! One business write: an action of the AWS SDK and what the protocol needs to know of it.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem, Update,
};

/// An item as the AWS SDK holds it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// One write of a [`Transaction`](crate::Transaction): made from a `Put`, `Update`, `Delete`,
/// `ConditionCheck` or `TransactWriteItem` of `aws-sdk-dynamodb` 1.x.
///
/// `Debug` prints the kind and the table, not the item.
#[derive(Clone)]
pub struct Write {
    action: TransactWriteItem,
    guard: Option<Guard>,
}

/// Whose failed condition means that the message is superseded.
#[derive(Clone)]
enum Guard {
    /// The item's attribute of this name has to be newer than the stored one.
    Version(String),
    /// The user's own condition.
    Condition,
}

impl Write {
    pub(crate) fn put(table: &str, item: Item) -> Self {
        // The SDK's own builder can only fail on fields that are set here.
        Self::from(
            TransactWriteItem::builder()
                .set_put(put(table, item).build().ok())
                .build(),
        )
    }

    /// A put under a version guard; the error is a sentence.
    pub(crate) fn put_if_newer(table: &str, item: Item, version: &str) -> Result<Self, String> {
        let ours = match item.get(version) {
            Some(value @ (AttributeValue::N(_) | AttributeValue::S(_))) => value.clone(),
            Some(_) => {
                return Err(format!(
                    "the attribute {version:?} of the item for the table {table:?} is neither a \
                     number nor a string, so it can't tell which version is newer"
                ));
            }
            None => {
                return Err(format!(
                    "the item for the table {table:?} has no attribute {version:?} to tell which \
                     version is newer"
                ));
            }
        };
        let put = put(table, item)
            .condition_expression("attribute_not_exists(#version) OR #version < :version")
            .expression_attribute_names("#version", version)
            .expression_attribute_values(":version", ours)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        Ok(Self {
            action: TransactWriteItem::builder()
                .set_put(put.build().ok())
                .build(),
            guard: Some(Guard::Version(version.to_owned())),
        })
    }

    /// Makes the write's own condition a version guard: if it fails, the message is superseded,
    /// not failed. It is then completed without any of its writes and without a result, outcome
    /// `completed`, reason `stale`.
    ///
    /// For an update that applies only if it is newer than what the item has seen; for a whole
    /// item there is [`put_if_newer`](crate::Transaction::put_if_newer).
    #[must_use]
    pub fn stale_if_condition_fails(mut self) -> Self {
        self.guard.get_or_insert(Guard::Condition);
        self
    }

    /// The table that is written to or checked; empty if the SDK's action is.
    pub fn table(&self) -> &str {
        if let Some(put) = &self.action.put {
            &put.table_name
        } else if let Some(update) = &self.action.update {
            &update.table_name
        } else if let Some(delete) = &self.action.delete {
            &delete.table_name
        } else if let Some(check) = &self.action.condition_check {
            &check.table_name
        } else {
            ""
        }
    }

    /// The SDK's action.
    pub fn action(&self) -> &TransactWriteItem {
        &self.action
    }

    pub(crate) fn is_version_guard(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether the version that this write guards can be compared with the stored item's. DynamoDB
    /// takes a number for neither newer nor older than a string.
    pub(crate) fn is_comparable_with(&self, stored: &Item) -> bool {
        let (Some(Guard::Version(name)), Some(item)) = (&self.guard, self.item()) else {
            return true;
        };
        match (item.get(name), stored.get(name)) {
            (Some(ours), Some(theirs)) => {
                std::mem::discriminant(ours) == std::mem::discriminant(theirs)
            }
            _ => true,
        }
    }

    /// The item of a put.
    pub(crate) fn item(&self) -> Option<&Item> {
        self.action.put.as_ref().map(|put| &put.item)
    }

    /// The key of an update, delete or check.
    pub(crate) fn key(&self) -> Option<&Item> {
        let action = &self.action;
        if let Some(update) = &action.update {
            Some(&update.key)
        } else if let Some(delete) = &action.delete {
            Some(&delete.key)
        } else {
            action.condition_check.as_ref().map(|check| &check.key)
        }
    }

    /// The values that an update brings into its item.
    pub(crate) fn new_values(&self) -> Option<&Item> {
        let update = self.action.update.as_ref()?;
        update.expression_attribute_values.as_ref()
    }

    pub(crate) fn kind(&self) -> &'static str {
        let action = &self.action;
        match (
            action.put.is_some(),
            action.update.is_some(),
            action.delete.is_some(),
            action.condition_check.is_some(),
        ) {
            (true, false, false, false) => "put",
            (false, true, false, false) => "update",
            (false, false, true, false) => "delete",
            (false, false, false, true) => "condition check",
            (false, false, false, false) => "empty",
            _ => "ambiguous",
        }
    }
}

fn put(table: &str, item: Item) -> aws_sdk_dynamodb::types::builders::PutBuilder {
    Put::builder().table_name(table).set_item(Some(item))
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {:?}", self.kind(), self.table())
    }
}

impl From<TransactWriteItem> for Write {
    fn from(action: TransactWriteItem) -> Self {
        Self {
            action,
            guard: None,
        }
    }
}

impl From<Put> for Write {
    fn from(put: Put) -> Self {
        TransactWriteItem::builder().put(put).build().into()
    }
}

impl From<Update> for Write {
    fn from(update: Update) -> Self {
        TransactWriteItem::builder().update(update).build().into()
    }
}

impl From<Delete> for Write {
    fn from(delete: Delete) -> Self {
        TransactWriteItem::builder().delete(delete).build().into()
    }
}

impl From<ConditionCheck> for Write {
    fn from(check: ConditionCheck) -> Self {
        let action = TransactWriteItem::builder().condition_check(check).build();
        action.into()
    }
}
