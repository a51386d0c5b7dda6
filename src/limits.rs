//! What DynamoDB would refuse of a transaction, found before anything is sent.
//!
//! [Limits](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html):
//! 100 actions and 4 MB a transaction, 400 KB an item, and no item twice. One action is the record.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::json;
use crate::write::{Item, Write};

const MAX_WRITES: usize = 99;
const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
const MAX_ITEM_BYTES: usize = 400 * 1024;

/// What a record holds beside the result: names, key, token, fingerprint, times.
const RECORD_OVERHEAD_BYTES: usize = 2 * 1024;

/// A number takes a byte for two significant digits and one more.
const SMALLEST_NUMBER_BYTES: usize = 2;

/// The key attributes of tables, by table.
pub(crate) type KeyAttributes = HashMap<String, BTreeSet<String>>;

/// Checks the writes of one transaction; the error is a sentence that names the write.
pub(crate) fn check(writes: &[Write], known_keys: &KeyAttributes) -> Result<(), String> {
    if writes.len() > MAX_WRITES {
        return Err(format!(
            "{} writes in one transaction: DynamoDB takes 100, and one is the record; 99 are left",
            writes.len()
        ));
    }
    for (at, write) in writes.iter().enumerate() {
        if matches!(write.kind(), "empty" | "ambiguous") {
            return Err(format!(
                "write {at} has not exactly one action: give it one of put, update, delete and \
                 condition check"
            ));
        }
        if write.table().is_empty() {
            return Err(format!("write {at}, a {}, names no table", write.kind()));
        }
        let bytes = bytes_of_item(write.item().or(write.key()));
        if bytes > MAX_ITEM_BYTES {
            return Err(format!(
                "the item of write {at}, a {write:?}, has about {bytes} bytes: DynamoDB takes \
                 {MAX_ITEM_BYTES}"
            ));
        }
    }
    check_total(writes, 0)?;
    check_no_item_twice(writes, known_keys)
}

/// Checks that the result fits into the record, and beside the writes into the transaction.
pub(crate) fn check_result(json: &str, writes: &[Write]) -> Result<(), String> {
    let most = MAX_ITEM_BYTES - RECORD_OVERHEAD_BYTES;
    if json.len() > most {
        return Err(format!(
            "the result has {} bytes as JSON: a record holds {most}; return less, and put the rest \
             into an item",
            json.len()
        ));
    }
    check_total(writes, json.len())
}

fn check_total(writes: &[Write], result_bytes: usize) -> Result<(), String> {
    let total = result_bytes
        + writes
            .iter()
            .map(|write| {
                bytes_of_item(write.item().or(write.key())) + bytes_of_item(write.new_values())
            })
            .sum::<usize>();
    if total > MAX_TRANSACTION_BYTES {
        return Err(format!(
            "the transaction has about {total} bytes: DynamoDB takes {MAX_TRANSACTION_BYTES}"
        ));
    }
    Ok(())
}

fn check_no_item_twice(writes: &[Write], known_keys: &KeyAttributes) -> Result<(), String> {
    let mut keys = known_keys.clone();
    for write in writes {
        if let Some(key) = write.key() {
            let names = key.keys().cloned().collect();
            // What a key consists of is known best from a key.
            keys.insert(write.table().to_owned(), names);
        }
    }
    let mut seen = HashSet::new();
    for (at, write) in writes.iter().enumerate() {
        let Some(names) = keys.get(write.table()) else {
            continue;
        };
        let Some(item) = write.item().or(write.key()) else {
            continue;
        };
        let key: BTreeMap<&String, Comparable<'_>> = names
            .iter()
            .filter_map(|name| Some((name, comparable(item.get(name)?)?)))
            .collect();
        // A put that lacks a key attribute is DynamoDB's to refuse.
        if key.len() == names.len() && !seen.insert((write.table(), key)) {
            return Err(format!(
                "write {at}, a {write:?}, is the second on the same item: DynamoDB takes one write \
                 or check an item in a transaction; join them into one"
            ));
        }
    }
    Ok(())
}

/// A key attribute's value, such that two are equal if DynamoDB takes them for the same.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Comparable<'a> {
    Text(&'a str),
    Number(String),
    Bytes(&'a [u8]),
}

fn comparable(value: &AttributeValue) -> Option<Comparable<'_>> {
    match value {
        AttributeValue::S(text) => Some(Comparable::Text(text)),
        AttributeValue::N(number) => Some(Comparable::Number(json::decimal(number))),
        AttributeValue::B(bytes) => Some(Comparable::Bytes(bytes.as_ref())),
        _ => None,
    }
}

/// No more than DynamoDB [counts][sizes]: what this refuses, DynamoDB refuses too.
///
/// [sizes]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
fn bytes_of_item(item: Option<&Item>) -> usize {
    item.into_iter()
        .flatten()
        .map(|(name, value)| name.len() + bytes_of_value(value))
        .sum()
}

fn bytes_of_value(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(_) => SMALLEST_NUMBER_BYTES,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.len() * SMALLEST_NUMBER_BYTES,
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(values) => {
            3 + values.iter().map(|v| 1 + bytes_of_value(v)).sum::<usize>()
        }
        AttributeValue::M(members) => 3 + members.len() + bytes_of_item(Some(members)),
        _ => 0,
    }
}
