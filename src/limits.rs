//! What DynamoDB would refuse of a transaction, found before anything is sent.
//!
//! [Limits](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html):
//! 100 actions and 4 MB a transaction, 400 KB an item, and no item twice. One action is the record.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::items::{self, KeyAttributes};
use crate::write::{Item, Write};

/// Actions in one transaction.
pub(crate) const MAX_ACTIONS: usize = 100;
const MAX_WRITES: usize = MAX_ACTIONS - 1;
pub(crate) const MAX_TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
const MAX_ITEM_BYTES: usize = 400 * 1024;

/// What a record holds beside the result: names, key, token, fingerprint, times.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 2 * 1024;

/// A number takes a byte for two significant digits and one more.
const SMALLEST_NUMBER_BYTES: usize = 2;

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
    let total = result_bytes + bytes_of(writes);
    if total > MAX_TRANSACTION_BYTES {
        return Err(format!(
            "the transaction has about {total} bytes: DynamoDB takes {MAX_TRANSACTION_BYTES}"
        ));
    }
    Ok(())
}

/// About what the writes count for the limit of a transaction, beside their record.
pub(crate) fn bytes_of(writes: &[Write]) -> usize {
    writes
        .iter()
        .map(|write| {
            bytes_of_item(write.item().or(write.key())) + bytes_of_item(write.new_values())
        })
        .sum()
}

fn check_no_item_twice(writes: &[Write], known_keys: &KeyAttributes) -> Result<(), String> {
    if writes.len() < 2 {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for (at, item) in items::touched(writes, known_keys).into_iter().enumerate() {
        if item.is_some_and(|item| !seen.insert(item)) {
            let write = writes.get(at);
            return Err(format!(
                "write {at}, a {}, is the second on the same item: DynamoDB takes one write \
                 or check an item in a transaction; join them into one",
                write.map_or_else(String::new, |write| format!("{write:?}"))
            ));
        }
    }
    Ok(())
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
