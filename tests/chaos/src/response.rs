//! What the event source mapping makes of a function's response, where ReportBatchItemFailures is on.

use serde_json::Value;

/// Which messages of the batch are done, by their position; `None` if the whole batch is to come
/// back, because the response is none that the mapping understands.
///
/// AWS counts a response without a list, or with an empty one, as a full success. It retries the
/// whole batch for a list that names no message of it.
pub(crate) fn done(response: &[u8], batch: &[String]) -> Option<Vec<usize>> {
    let all = || Some((0..batch.len()).collect());
    let response: Value = serde_json::from_slice(response).ok()?;
    let failures = match &response {
        Value::Null => return all(),
        Value::Object(members) => match members.get("batchItemFailures") {
            None | Some(Value::Null) => return all(),
            Some(failures) => failures.as_array()?,
        },
        _ => return None,
    };
    let mut failed = vec![false; batch.len()];
    for failure in failures {
        let id = failure.get("itemIdentifier")?.as_str()?;
        let at = batch.iter().position(|known| known == id)?;
        failed[at] = true;
    }
    Some((0..batch.len()).filter(|at| !failed[*at]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_two(response: &str) -> Option<Vec<usize>> {
        done(response.as_bytes(), &["m-1".to_owned(), "m-2".to_owned()])
    }

    #[test]
    fn what_is_not_reported_is_done() {
        let one = r#"{"batchItemFailures": [{"itemIdentifier": "m-1"}]}"#;
        assert_eq!(of_two(one), Some(vec![1]));
        for full_success in [r#"{"batchItemFailures": []}"#, "{}", "null"] {
            assert_eq!(of_two(full_success), Some(vec![0, 1]), "{full_success}");
        }
    }

    #[test]
    fn a_response_that_is_not_understood_brings_the_whole_batch_back() {
        for response in [
            "",
            "not json",
            "[]",
            r#"{"batchItemFailures": "m-1"}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": ""}]}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": null}]}"#,
            r#"{"batchItemFailures": [{"id": "m-1"}]}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": "m-3"}]}"#,
        ] {
            assert_eq!(of_two(response), None, "{response}");
        }
    }
}
