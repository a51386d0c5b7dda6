//! Which item a write touches, such that two are equal if DynamoDB takes them for the same.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::json;
use crate::write::{Item, Write};

/// The key attributes of tables, by table.
pub(crate) type KeyAttributes = HashMap<String, BTreeSet<String>>;

/// One item of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemId<'a> {
    table: &'a str,
    /// In the order of the attributes' names.
    key: Vec<(&'a str, KeyValue<'a>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum KeyValue<'a> {
    Text(&'a str),
    /// As an exact decimal.
    Number(String),
    Bytes(&'a [u8]),
}

/// The item of each write; `None` for a put on a table whose key is not known, and for one that
/// lacks a key attribute, which is DynamoDB's to refuse.
pub(crate) fn touched<'a>(
    writes: &'a [Write],
    known: &'a KeyAttributes,
) -> Vec<Option<ItemId<'a>>> {
    writes
        .iter()
        .map(|write| {
            let table = write.table();
            // What a key consists of is known best from a key.
            if let Some(key) = write.key() {
                return item_id(table, key.keys().map(String::as_str), key);
            }
            let item = write.item()?;
            match writes.iter().find_map(|other| key_on(other, table)) {
                Some(key) => item_id(table, key.keys().map(String::as_str), item),
                None => item_id(table, known.get(table)?.iter().map(String::as_str), item),
            }
        })
        .collect()
}

fn key_on<'a>(write: &'a Write, table: &str) -> Option<&'a Item> {
    write.key().filter(|_| write.table() == table)
}

fn item_id<'a>(
    table: &'a str,
    names: impl Iterator<Item = &'a str>,
    item: &'a Item,
) -> Option<ItemId<'a>> {
    let mut key = names
        .map(|name| Some((name, key_value(item.get(name)?)?)))
        .collect::<Option<Vec<_>>>()?;
    key.sort_unstable_by_key(|(name, _)| *name);
    Some(ItemId { table, key })
}

fn key_value(value: &AttributeValue) -> Option<KeyValue<'_>> {
    match value {
        AttributeValue::S(text) => Some(KeyValue::Text(text)),
        AttributeValue::N(number) => Some(KeyValue::Number(json::decimal(number))),
        AttributeValue::B(bytes) => Some(KeyValue::Bytes(bytes.as_ref())),
        _ => None,
    }
}
