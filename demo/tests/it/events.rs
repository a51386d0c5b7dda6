//! What becomes of the events of `events/`.

use serde_json::{Value, json};

use crate::runs::{Lines, demo, event, output, stderr, stdout};

const NO_ARGUMENTS: [&str; 0] = [];

/// `c` for completed and `d` for duplicate; others in full.
const EXPECTED: [(&str, &[&str]); 18] = [
    ("01-first-delivery.json", &["c"]),
    ("02-redelivery.json", &["d"]),
    ("03-duplicate-in-one-batch.json", &["c", "d", "c"]),
    ("04-partial-failure.json", &["c", "failed handler", "c"]),
    (
        "05-fifo-groups.json",
        &["c", "c", "failed handler", "c", "unprocessed group", "c"],
    ),
    (
        "06-malformed-beside-good.json",
        &[
            "c",
            "failed decode",
            "failed decode",
            "failed decode",
            "failed decode",
            "failed decode",
            "failed decode",
            "c",
        ],
    ),
    (
        "07-unusable-amounts.json",
        &[
            "failed decode",
            "failed decode",
            "failed decode",
            "failed decode",
            "c",
        ],
    ),
    ("08-record-without-message-id.json", &["c", "failed decode"]),
    ("09-message-attributes-of-every-type.json", &["c"]),
    ("10-sns-envelope.json", &["c"]),
    ("11-sns-envelope-without-signature.json", &["c"]),
    ("12-sns-raw-delivery.json", &["c"]),
    ("13-eventbridge-event.json", &["c"]),
    ("14-s3-test-event-beside-good.json", &["skipped", "c"]),
    ("15-redriven-from-dead-letter-queue.json", &["d"]),
    (
        "16-same-payment-other-amount.json",
        &["failed payload_mismatch"],
    ),
    ("17-panic-beside-good.json", &["failed panic", "c"]),
    ("18-slow-beside-good.json", &["failed deadline", "c"]),
];

/// Added up by hand from the files, each payment once: see `payment_id`, `account` and `amount`.
fn ledger() -> Value {
    json!({
        "accounts": {
            // 4000 + 2500 + 1000 + 100 + 1 + 5000, and of the fifty 100, 105, … 145
            "1042": 13_826,
            // 1200 + 200 + 400 + 600 + 1500 + 2100 + 450 + 667, and of the fifty 101, 106, … 146
            "2077": 8_352,
            // 700 + 800 + 900 + 3200 + 150 + 250 + 556, and of the fifty 102, 107, … 147
            "3310": 7_801,
            // of the fifty 103, 108, … 148
            "4815": 1_255,
            // of the fifty 104, 109, … 149
            "5923": 1_265,
        },
        "payments": 71,
    })
}

fn expected(short: &str) -> String {
    match short {
        "c" => "completed".to_owned(),
        "d" => "duplicate".to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn every_event_has_its_outcomes_and_the_ledger_is_exact() {
    let lines = Lines::of(demo(NO_ARGUMENTS));

    for (event, outcomes) in EXPECTED {
        let outcomes: Vec<_> = outcomes.iter().map(|outcome| expected(outcome)).collect();
        assert_eq!(lines.outcomes(event), outcomes, "{event}");
    }
    assert_eq!(
        lines.outcomes("19-fifty-messages.json"),
        vec!["completed"; 50]
    );
    assert_eq!(lines.ledger(), &ledger());
    // 71 completed, 2 each; 3 duplicates, 1 each; 4 that failed in the handler, claim and release;
    // 1 other payment under a used id, the claim alone.
    assert_eq!(
        lines.requests(),
        &json!({
            "messages": 92,
            "total": 154,
            "per_message": 154.0 / 92.0,
            "by_operation": { "PutItem": 79, "TransactWriteItems": 71, "DeleteItem": 4 },
        })
    );
}

#[test]
fn the_response_lists_what_comes_back_and_nothing_else() {
    let files = ["01", "04", "08"].map(event);
    let lines = Lines::of(demo(files));

    let clean = lines.answer("01-first-delivery.json");
    assert_eq!(clean["response"], json!({ "batchItemFailures": [] }));
    assert_eq!(clean["error"], Value::Null);

    let name = "04-partial-failure.json";
    let failed = &lines.message_ids(name)[1];
    assert_eq!(
        lines.answer(name)["response"],
        json!({ "batchItemFailures": [{ "itemIdentifier": failed }] })
    );

    let name = "08-record-without-message-id.json";
    assert_eq!(lines.message_ids(name)[1], Value::Null);
    assert_eq!(lines.answer(name)["response"], Value::Null);
    let error = lines.answer(name)["error"].as_str().expect("an error");
    assert!(error.contains("messageId"), "{error}");
}

#[test]
fn a_first_delivery_takes_two_requests_and_a_duplicate_one() {
    let first = Lines::of(demo([event("01")]));
    assert_eq!(
        first.requests()["by_operation"],
        json!({ "PutItem": 1, "TransactWriteItems": 1 })
    );

    let then_duplicate = Lines::of(demo([event("01"), event("02")]));
    assert_eq!(
        then_duplicate.requests()["by_operation"],
        json!({ "PutItem": 2, "TransactWriteItems": 1 })
    );
}

#[test]
fn a_panic_is_one_line_on_standard_error_and_none_in_the_json() {
    let output = output(demo([event("17").as_os_str(), "--json".as_ref()]));

    assert!(output.status.success());
    let told = stderr(&output);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("simulated panic"), "{told}");
    for line in stdout(&output).lines() {
        serde_json::from_str::<Value>(line).expect("every line is JSON");
    }
}

#[test]
fn the_table_for_a_person_has_a_line_a_message_and_no_colours_in_a_pipe() {
    let output = output(demo([event("04")]));

    assert!(output.status.success(), "{}", stderr(&output));
    let told = stdout(&output);
    let rows = told
        .lines()
        .filter(|line| line.starts_with("04-partial-failure"));
    assert_eq!(rows.count(), 3, "{told}");
    for part in [
        "simulated error",
        "1 of 3 comes back",
        "batchItemFailures",
        "account 1042",
        "each took effect once",
        "PutItem",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    assert!(!told.contains('\u{1b}'), "{told}");
}
