//! Which items the writes of transactions touch.

use std::collections::HashSet;

use lambda_idempotency::Write;
use lambda_idempotency::store::CommitRequest;

/// The table and the key of a business write.
pub fn target(write: &Write) -> (&str, &str) {
    let action = write.action();
    let id = if let Some(put) = &action.put {
        &put.item["id"]
    } else if let Some(update) = &action.update {
        &update.key["id"]
    } else {
        &action.condition_check.as_ref().unwrap().key["id"]
    };
    (write.table(), id.as_s().unwrap())
}

/// Whether two of these commits touch one item.
pub fn has_an_item_twice(commits: &[&CommitRequest]) -> bool {
    let mut records = HashSet::new();
    let mut items = HashSet::new();
    commits.iter().any(|commit| {
        let completion = commit.completion.as_ref();
        completion.is_some_and(|completion| !records.insert(&completion.record_id))
            || !commit
                .writes
                .iter()
                .all(|write| items.insert(target(write)))
    })
}
