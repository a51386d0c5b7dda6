//! What the demo can't use, and what it can in spite of everything.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::runs::{Lines, demo, event, output, stderr, stdout};

/// Exits with 2, says why in one line, and prints nothing else.
fn is_refused(command: Command, why: &str) {
    let output = output(command);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains(why), "{why:?} is not in {told:?}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_file_that_is_missing_or_not_json_is_refused_before_anything_is_run() {
    let directory = TempDir::new().expect("a directory");
    let text = directory.path().join("text.json");
    fs::write(&text, "not json").expect("a file");
    let missing = directory.path().join("missing.json");
    let nothing = directory.path().join("nothing");
    fs::create_dir(&nothing).expect("a directory");

    is_refused(demo([&event("01"), &text]), "text.json is not JSON");
    is_refused(demo([&event("01"), &missing]), "can't read");
    is_refused(demo([&nothing]), "no event files");
}

#[test]
fn an_unusable_option_is_refused() {
    is_refused(demo(["--key", "payment_id"]), "neither `message-id` nor");
    is_refused(demo(["--key", "/a~2"]), "JSON pointer");
    is_refused(demo(["--bogus"]), "--bogus");
}

#[test]
fn a_database_that_cannot_be_kept_is_refused_and_left_as_it_is() {
    let directory = TempDir::new().expect("a directory");
    let notes = directory.path().join("notes.txt");
    fs::write(&notes, "my notes").expect("a file");
    let nowhere = directory.path().join("missing").join("kept.db");

    for file in [directory.path(), &notes, &nowhere] {
        let mut command = demo([event("01")]);
        command.arg("--keep").arg(file);
        is_refused(command, "can't keep the database in");
    }
    assert_eq!(fs::read_to_string(&notes).expect("the file"), "my notes");
}

#[test]
fn an_unusable_endpoint_is_refused() {
    for (endpoint, why) in [
        ("localhost:8000", "has to be a URL"),
        // Nothing listens there.
        ("http://127.0.0.1:1", "can't create the table"),
    ] {
        let mut command = demo([event("01")]);
        command.env("AWS_ENDPOINT_URL_DYNAMODB", endpoint);
        is_refused(command, why);
    }
    let mut command = demo(["--keep", "kept.db"]);
    command.env("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1");
    is_refused(command, "leave one of them out");
}

#[test]
fn json_that_is_no_sqs_event_is_shown_with_its_error_and_the_rest_goes_on() {
    let directory = TempDir::new().expect("a directory");
    let files = [
        ("null.json", "null"),
        ("object.json", r#"{"detail": {}}"#),
        ("text.json", r#""Records""#),
        ("no-list.json", r#"{"Records": 5}"#),
        (
            "s3.json",
            r#"{"Records": [{"eventSource": "aws:s3", "s3": {}}]}"#,
        ),
    ];
    let mut arguments = Vec::new();
    for (name, json) in files {
        let path = directory.path().join(name);
        fs::write(&path, json).expect("a file");
        arguments.push(path);
    }
    arguments.push(event("01"));

    let lines = Lines::of(demo(&arguments));

    for (name, _) in files {
        assert_eq!(lines.answer(name)["response"], Value::Null, "{name}");
        assert!(lines.answer(name)["error"].is_string(), "{name}");
    }
    assert_eq!(lines.outcomes("01-first-delivery.json"), ["completed"]);
    assert_eq!(lines.ledger()["payments"], 1);
}
