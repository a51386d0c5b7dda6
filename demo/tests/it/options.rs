//! `--keep`, `--key` and another store.

use std::ffi::OsStr;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::runs::{Lines, demo, event};

#[test]
fn in_a_kept_database_the_second_run_finds_everything_done() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("kept.db");
    let arguments = [OsStr::new("--keep"), file.as_os_str()];

    let first = Lines::of(demo(arguments));
    let second = Lines::of(demo(arguments));

    assert_eq!(first.ledger(), second.ledger());
    assert_eq!(second.ledger()["payments"], 71);
    let again = first
        .all_outcomes()
        .into_iter()
        .map(|outcome| match outcome {
            "completed" => "duplicate",
            other => other,
        });
    assert_eq!(second.all_outcomes(), again.collect::<Vec<_>>());
    // 74 duplicates and the other payment under a used id, 1 each; 4 failed claims and releases.
    assert_eq!(second.requests()["total"], 83);
}

#[test]
fn the_message_id_as_key_lets_a_redrive_take_effect_again() {
    let files = ["01", "02", "15"].map(event);

    let by_payment = Lines::of(demo(&files));
    assert_eq!(
        by_payment.all_outcomes(),
        ["completed", "duplicate", "duplicate"]
    );
    assert_eq!(by_payment.ledger()["accounts"]["1042"], 4_000);

    let mut command = demo(&files);
    command.args(["--key", "message-id"]);
    let by_message = Lines::of(command);
    assert_eq!(
        by_message.all_outcomes(),
        ["completed", "duplicate", "completed"]
    );
    assert_eq!(by_message.ledger()["accounts"]["1042"], 8_000);
}

#[test]
fn another_pointer_can_be_the_key() {
    let mut command = demo([event("03")]);
    command.args(["--key", "/nowhere"]);
    let lines = Lines::of(command);
    assert_eq!(
        lines.outcomes("03-duplicate-in-one-batch.json"),
        ["failed key"; 3]
    );
}

#[test]
fn a_store_at_an_endpoint_is_used_in_place_of_the_embedded_one() {
    let runtime = Runtime::new().expect("a runtime");
    let endpoint = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let database = dynoxide::Database::memory().expect("a database");
        let never = std::future::pending();
        runtime.spawn(dynoxide::server::serve_with_shutdown(
            listener, database, never,
        ));
        format!("http://{address}")
    });
    let run = || {
        let mut command = demo([event("01")]);
        command.env("AWS_ENDPOINT_URL_DYNAMODB", &endpoint);
        Lines::of(command)
    };

    assert_eq!(run().all_outcomes(), ["completed"]);
    let second = run();
    assert_eq!(second.all_outcomes(), ["duplicate"]);
    assert_eq!(second.ledger()["accounts"]["1042"], 4_000);
}
