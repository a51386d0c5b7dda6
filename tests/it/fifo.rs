//! The order of a FIFO queue, and of messages with the same key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lambda_idempotency::{HandlerError, Message, Outcome, Reason, SqsService};

use crate::support::{Lab, Record, Step, batch};

/// A handler that notes the order of starts and ends, and fails for the bodies that say so.
fn noting(
    lab: &Lab,
    notes: &Arc<Mutex<Vec<String>>>,
) -> SqsService<impl lambda_idempotency::Handler<String, Output = ()> + use<>, String> {
    let notes = Arc::clone(notes);
    lab.idempotency().sqs_with(
        |delivery| Ok(delivery.body().to_owned()),
        move |message: Message<String>| {
            let notes = Arc::clone(&notes);
            async move {
                let note = |what: &str| {
                    notes
                        .lock()
                        .unwrap()
                        .push(format!("{what} {}", message.body));
                };
                note("start");
                tokio::task::yield_now().await;
                note("end");
                if message.body.contains("bad") {
                    return Err(HandlerError::from("bad"));
                }
                Ok(())
            }
        },
    )
}

fn record(body: &str, group: &str) -> Record {
    Record::new(&format!("m-{body}"), body).in_group(group)
}

/// The outcome of each message, by its body.
fn outcomes(lab: &Lab) -> Vec<(String, Outcome, Option<Reason>)> {
    let mut outcomes: Vec<_> = lab
        .take_reports()
        .into_iter()
        .map(|report| {
            let id = report.message_id.unwrap_or_default();
            (id.replace("m-", ""), report.outcome, report.reason)
        })
        .collect();
    outcomes.sort_by(|left, right| left.0.cmp(&right.0));
    outcomes
}

#[tokio::test]
async fn a_group_stops_at_its_first_failure_and_the_others_go_on() {
    let lab = Lab::new().await;
    let notes = Arc::default();
    let service = noting(&lab, &notes);
    let records = [
        record("1", "a"),
        record("2-bad", "a"),
        record("3", "b"),
        record("4", "a"),
        record("5", "b"),
    ];
    let failures = lab.failures(&service, batch(records)).await;
    assert_eq!(failures, ["m-2-bad", "m-4"]);
    assert_eq!(
        outcomes(&lab),
        [
            ("1".into(), Outcome::Completed, None),
            ("2-bad".into(), Outcome::Failed, Some(Reason::Handler)),
            ("3".into(), Outcome::Completed, None),
            ("4".into(), Outcome::Unprocessed, Some(Reason::Group)),
            ("5".into(), Outcome::Completed, None),
        ]
    );
    let notes = notes.lock().unwrap();
    assert!(!notes.iter().any(|note| note.ends_with(" 4")));
    let position = |note: &str| notes.iter().position(|noted| noted == note).unwrap();
    assert!(
        position("end 1") < position("start 2-bad"),
        "in order within a group"
    );
    assert!(position("end 3") < position("start 5"));
}

#[tokio::test]
async fn groups_run_side_by_side() {
    let lab = Lab::new().await;
    // Each waits for the other; one after the other they would wait until their time is up.
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let service = lab.idempotency().sqs(move |_: Message<u32>| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Ok(())
        }
    });
    let records = [record("1", "a"), record("2", "b")];
    assert!(lab.failures(&service, batch(records)).await.is_empty());
}

#[tokio::test]
async fn every_outcome_that_is_not_done_stops_the_group() {
    let lab = Lab::new().await;
    let service = noting(&lab, &Arc::default());
    let in_progress = [("status", crate::support::text("INPROGRESS"))];
    lab.put_record("m-1", &in_progress).await;
    let undecodable = record("3", "b").with("body", 5);
    let records = [
        record("1", "a"),
        record("2", "a"),
        undecodable,
        record("4", "b"),
    ];
    let failures = lab.failures(&service, batch(records)).await;
    assert_eq!(failures, ["m-1", "m-2", "m-3", "m-4"]);
    assert_eq!(
        outcomes(&lab),
        [
            ("1".into(), Outcome::InProgress, None),
            ("2".into(), Outcome::Unprocessed, Some(Reason::Group)),
            ("3".into(), Outcome::Failed, Some(Reason::Decode)),
            ("4".into(), Outcome::Unprocessed, Some(Reason::Group)),
        ]
    );
}

#[tokio::test]
async fn what_is_acknowledged_lets_the_group_go_on() {
    let lab = Lab::new().await;
    let service = noting(&lab, &Arc::default()).skip(|delivery| delivery.body() == "2");
    lab.put_record("m-1", &[("status", crate::support::text("COMPLETED"))])
        .await;
    let records = [record("1", "a"), record("2", "a"), record("3", "a")];
    assert!(lab.failures(&service, batch(records)).await.is_empty());
    assert_eq!(
        outcomes(&lab),
        [
            ("1".into(), Outcome::Duplicate, None),
            ("2".into(), Outcome::Skipped, None),
            ("3".into(), Outcome::Completed, None),
        ]
    );
}

#[tokio::test]
async fn behind_a_record_whose_group_can_not_be_read_nothing_runs() {
    for unreadable in [
        record("2", "a").with("attributes", "none"),
        record("2", "a").attribute("MessageGroupId", ""),
        record("2", "a").attribute("MessageGroupId", serde_json::Value::Null),
        record("2", "a").without("attributes"),
    ] {
        let lab = Lab::new().await;
        let service = noting(&lab, &Arc::default());
        let records = [
            record("1", "a"),
            unreadable,
            record("3", "b"),
            record("4", "a"),
        ];
        let failures = lab.failures(&service, batch(records)).await;
        assert_eq!(failures, ["m-2", "m-3", "m-4"]);
        assert_eq!(
            outcomes(&lab),
            [
                ("1".into(), Outcome::Completed, None),
                ("2".into(), Outcome::Failed, Some(Reason::Decode)),
                ("3".into(), Outcome::Unprocessed, Some(Reason::Group)),
                ("4".into(), Outcome::Unprocessed, Some(Reason::Group)),
            ]
        );
    }
}

#[tokio::test]
async fn a_group_id_on_a_standard_queue_orders_nothing() {
    let lab = Lab::new().await;
    let service = noting(&lab, &Arc::default());
    let standard =
        |body: &str| Record::new(&format!("m-{body}"), body).attribute("MessageGroupId", "a");
    let failures = lab
        .failures(&service, batch([standard("1-bad"), standard("2")]))
        .await;
    assert_eq!(failures, ["m-1-bad"]);
}

#[tokio::test]
async fn messages_of_one_key_run_one_after_the_other_and_the_second_is_a_duplicate() {
    for in_group in [false, true] {
        let lab = Lab::new().await;
        let notes = Arc::default();
        let service = noting(&lab, &notes).key_by(|body: &String| body.clone());
        // On a FIFO queue in two groups, which would run side by side.
        let record = |id: &str| {
            let record = Record::new(id, "same");
            if in_group {
                record.in_group(id)
            } else {
                record
            }
        };
        let failures = lab
            .failures(&service, batch([record("m-1"), record("m-2")]))
            .await;
        assert!(failures.is_empty());
        let once = ["start same", "end same"];
        let runs = match lab.mode.runs_before_it_claims() {
            true => 2,
            false => 1,
        };
        assert_eq!(*notes.lock().unwrap(), once.repeat(runs));
        let mut operations = lab.steps(&[Step::Claim, Step::Complete]);
        // The duplicate is refused by a condition, wherever the key is taken.
        operations.push("PutItem");
        assert_eq!(lab.wire.take_operations(), operations);
        assert_eq!(lab.take_outcomes(), ["m-1 completed", "m-2 duplicate"]);
    }
}

#[tokio::test]
async fn after_a_failure_the_next_message_of_the_key_gets_its_turn() {
    let lab = Lab::new().await;
    let fails = Arc::new(AtomicUsize::new(1));
    let service = lab
        .idempotency()
        .sqs(move |_: Message<u32>| {
            let first = fails.swap(0, Ordering::Relaxed) == 1;
            async move {
                if first {
                    Err("the first fails".into())
                } else {
                    Ok(())
                }
            }
        })
        .key_by(|body: &u32| body.to_string());
    let records = [Record::new("m-1", 7), Record::new("m-2", 7)];
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-1"]);
}

#[tokio::test]
async fn a_message_of_the_key_that_comes_later_waits_for_those_before_it() {
    let lab = Lab::new().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let service = lab
        .idempotency()
        .sqs(move |_: Message<u32>| {
            let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if is_first {
                    return Err("the first fails".into());
                }
                // Long enough for a claim to come back.
                for _ in 0..2_000 {
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
        })
        .key_by(|body: &u32| body.to_string())
        // The third is started once the first has ended, and the second has its turn.
        .concurrency(2);
    let records = ["m-1", "m-2", "m-3"].map(|id| Record::new(id, 7));
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-1"]);
}

#[tokio::test]
async fn no_more_messages_run_at_once_than_allowed() {
    for (concurrency, most) in [(0, 1), (1, 1), (3, 3), (50, 12)] {
        let lab = Lab::new().await;
        let (running, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&highest);
        let service = lab
            .idempotency()
            .sqs(move |_: Message<u32>| {
                let (running, highest) = (Arc::clone(&running), Arc::clone(&highest));
                async move {
                    let now = running.fetch_add(1, Ordering::Relaxed) + 1;
                    highest.fetch_max(now, Ordering::Relaxed);
                    // Long enough for every claim of the batch to come back.
                    for _ in 0..2_000 {
                        tokio::task::yield_now().await;
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                    Ok(())
                }
            })
            .concurrency(concurrency);
        let records = (0..12).map(|n| Record::new(&format!("m-{n}"), n));
        assert!(lab.failures(&service, batch(records)).await.is_empty());
        let highest = seen.load(Ordering::Relaxed);
        assert!(
            highest <= most && (concurrency > 1) == (highest > 1),
            "{highest} of {most}"
        );
    }
}
