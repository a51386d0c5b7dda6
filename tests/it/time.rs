//! Deadlines: of the invocation, of the handler, of a store that does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lambda_idempotency::{Clock as _, Message, Outcome, Reason, SqsService, Transaction};

use crate::support::{Bank, Fault, Lab, Payment, Record, Step, batch};

const SECOND: Duration = Duration::from_secs(1);

fn payments(lab: &Lab) -> SqsService<Bank, Payment> {
    lab.idempotency().sqs(Bank(lab.tables.clone()))
}

/// A handler of numbers that takes so many seconds.
fn slow(lab: &Lab) -> SqsService<impl lambda_idempotency::Handler<u64, Output = ()> + use<>, u64> {
    let clock = lab.clock.clone();
    lab.idempotency().sqs(move |message: Message<u64>| {
        let clock = clock.clone();
        async move {
            clock.advance(SECOND * u32::try_from(message.body).unwrap());
            tokio::task::yield_now().await;
            Ok(())
        }
    })
}

#[tokio::test]
async fn a_past_deadline_claims_nothing_and_reports_everything() {
    let lab = Lab::new().await;
    for past in [Duration::ZERO, Duration::from_millis(5), 14 * 60 * SECOND] {
        let deadline = lab.clock.now() - past;
        let records = [Record::payment("m-1", "p-1"), Record::payment("m-2", "p-2")];
        let service = payments(&lab);
        let response = lab.process_until(deadline, &service, batch(records));
        let response = response.await.unwrap();
        assert_eq!(response.batch_item_failures.len(), 2);
        assert!(lab.wire.take_operations().is_empty());
        for report in lab.take_reports() {
            assert_eq!(report.outcome, Outcome::Unprocessed);
            assert_eq!(report.reason, Some(Reason::Deadline));
        }
    }
}

#[tokio::test]
async fn a_deadline_that_can_not_be_right_is_replaced_by_the_default_time() {
    let lab = Lab::claiming_first().await;
    let idempotency = lab.builder().default_time(7 * SECOND).build().unwrap();
    let service = idempotency.sqs(Bank(lab.tables.clone()));
    let now = lab.clock.now();
    let wrong = [
        // What `cargo lambda watch` reports.
        std::time::UNIX_EPOCH + 600 * SECOND,
        now - 16 * 60 * SECOND,
        now + 17 * 60 * SECOND,
    ];
    for (at, deadline) in wrong.into_iter().enumerate() {
        let record = Record::payment(&format!("m-{at}"), &format!("p-{at}"));
        let response = lab.process_until(deadline, &service, batch([record]));
        let response = response.await.unwrap();
        assert!(response.batch_item_failures.is_empty());
        let sent = lab.wire.take_sent();
        let lease = &sent[0].body["Item"]["in_progress_expiration"]["N"];
        assert_eq!(*lease, (lab.clock.millis() + 7_000).to_string());
    }
}

#[tokio::test]
async fn the_lease_ends_with_the_invocation_unless_it_is_to_last_longer() {
    let lab = Lab::claiming_first().await;
    let longer = lab.builder().lease_at_least(60 * SECOND).build().unwrap();
    for (idempotency, lease) in [(lab.idempotency(), 5_000), (longer, 60_000)] {
        let service = idempotency.sqs(Bank(lab.tables.clone()));
        let deadline = lab.clock.now() + 5 * SECOND;
        let record = Record::payment(&format!("m-{lease}"), "p");
        let response = lab.process_until(deadline, &service, batch([record]));
        response.await.unwrap();
        let sent = lab.wire.take_sent();
        let stored = &sent[0].body["Item"]["in_progress_expiration"]["N"];
        assert_eq!(*stored, (lab.clock.millis() + lease).to_string());
    }
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_reported_and_leaves_nothing() {
    let lab = Lab::new().await;
    let clock = lab.clock.clone();
    let service = lab.idempotency().sqs(move |message: Message<u32>| {
        let clock = clock.clone();
        async move {
            // The handler knows when it has to be done; the rest is kept for the commit.
            assert_eq!(
                message.deadline(),
                clock.now() + Duration::from_millis(7_920)
            );
            clock.advance(Duration::from_millis(7_920));
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    let deadline = lab.clock.now() + 10 * SECOND;
    let records = batch([Record::new("m-1", 1)]);
    let response = lab.process_until(deadline, &service, records);
    let response = response.await.unwrap();
    assert_eq!(response.batch_item_failures.len(), 1);
    let report = lab.take_report();
    assert_eq!(report.reason, Some(Reason::Deadline));
    let steps = lab.steps(&[Step::Claim, Step::GiveBack]);
    assert_eq!(lab.wire.take_operations(), steps);
    assert_eq!(lab.record("m-1").await, None);
}

#[tokio::test]
async fn messages_that_could_not_be_finished_are_not_started() {
    let lab = Lab::new().await;
    let service = slow(&lab).concurrency(1);
    // The first takes 6 s of 10 s. The second would need as long.
    let records = [
        Record::new("m-1", 6),
        Record::new("m-2", 6),
        Record::new("m-3", 6),
    ];
    let deadline = lab.clock.now() + 10 * SECOND;
    let response = lab.process_until(deadline, &service, batch(records));
    let response = response.await.unwrap();
    assert_eq!(response.batch_item_failures.len(), 2);
    let steps = lab.steps(&[Step::Claim, Step::Complete]);
    assert_eq!(lab.wire.take_operations(), steps);
    let reports = lab.take_reports();
    assert_eq!(reports[0].outcome, Outcome::Completed);
    for report in &reports[1..] {
        assert_eq!(
            (report.outcome, report.reason),
            (Outcome::Unprocessed, Some(Reason::Deadline))
        );
    }
}

#[tokio::test]
async fn a_message_is_started_where_just_the_usual_time_is_left() {
    let lab = Lab::new().await;
    let service = slow(&lab).concurrency(1);
    // Of 12.1 s the last tenth of a second is kept for the response. The first takes half of the rest.
    let deadline = lab.clock.now() + Duration::from_millis(12_100);
    let records = batch([Record::new("m-1", 6), Record::new("m-2", 1)]);
    let response = lab.process_until(deadline, &service, records);
    let response = response.await.unwrap();
    assert!(response.batch_item_failures.is_empty());
}

#[tokio::test]
async fn once_the_time_is_up_nothing_of_the_user_s_is_called_for_the_messages_that_are_left() {
    let lab = Lab::new().await;
    let asked = Arc::new(AtomicU32::new(0));
    let (asks, clock) = (Arc::clone(&asked), lab.clock.clone());
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .skip(move |_| {
            asks.fetch_add(1, Ordering::Relaxed);
            clock.advance(Duration::from_secs(40));
            true
        })
        .concurrency(1);
    let records = (0..5).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}")));
    let failures = lab.failures(&service, batch(records)).await;
    assert_eq!(failures, ["m-1", "m-2", "m-3", "m-4"]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_unavailable_store_stops_the_batch_before_it_tries_them_all() {
    for fault in [
        Fault::Refused,
        Fault::Reset,
        Fault::code("ThrottlingException"),
        Fault::code("AccessDeniedException"),
        Fault::code("InternalServerError"),
    ] {
        let lab = Lab::new().await;
        lab.store_fails(&fault);
        let idempotency = lab.builder().retry_for(SECOND).build().unwrap();
        let service = idempotency.sqs(Bank(lab.tables.clone())).concurrency(1);
        let records = (0..20).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}")));
        let failures = lab.failures(&service, batch(records)).await;
        assert_eq!(failures.len(), 20, "{fault:?}");
        let reports = lab.take_reports();
        let count = |outcome| {
            reports
                .iter()
                .filter(|report| report.outcome == outcome)
                .count()
        };
        assert_eq!(count(Outcome::Failed), 3, "{fault:?}");
        assert_eq!(count(Outcome::Unprocessed), 17, "{fault:?}");
        for report in reports {
            assert_eq!(report.reason, Some(Reason::Store), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_message_that_asks_nothing_of_the_store_does_not_say_that_it_can_be_used() {
    let lab = Lab::claiming_at_commit().await;
    lab.store_fails(&Fault::code("AccessDeniedException"));
    // Every other one fails before anything is sent.
    let service = lab
        .idempotency()
        .sqs(|message: Message<u32>| async move {
            match message.body % 2 {
                0 => Ok(()),
                _ => Err("the handler's own error".into()),
            }
        })
        .concurrency(1);
    let records = (0..10).map(|n| Record::new(&format!("m-{n}"), n));
    assert_eq!(lab.failures(&service, batch(records)).await.len(), 10);
    let reasons: Vec<_> = lab
        .take_reports()
        .into_iter()
        .map(|report| (report.outcome, report.reason))
        .collect();
    let handler = (Outcome::Failed, Some(Reason::Handler));
    let store = (Outcome::Failed, Some(Reason::Store));
    assert_eq!(reasons[..5], [store, handler, store, handler, store]);
    let not_started = (Outcome::Unprocessed, Some(Reason::Store));
    assert_eq!(reasons[5..], [not_started; 5]);
}

#[tokio::test]
async fn failures_of_single_messages_do_not_stop_the_batch() {
    let lab = Lab::new().await;
    // A conflict on one record, again and again, says nothing of the others.
    for at in 0..8 {
        lab.put_record(
            &format!("m-{at}"),
            &[("status", crate::support::text("odd"))],
        )
        .await;
    }
    let records = (0..10).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}")));
    let failures = lab
        .failures(&payments(&lab).concurrency(1), batch(records))
        .await;
    assert_eq!(failures.len(), 8);
    assert_eq!(lab.balance("a").await, 20);
}

#[tokio::test]
async fn a_store_that_stops_answering_in_mid_batch_leaves_a_truthful_response_in_time() {
    let lab = Lab::new().await;
    let records = (0..3).map(|n| Record::payment(&format!("m-{n}"), &format!("p-{n}")));
    let started = lab.clock.now();
    let asked = Arc::new(AtomicU32::new(0));
    let (tables, wire, asked_too) = (lab.tables.clone(), lab.wire.clone(), Arc::clone(&asked));
    let service = lab
        .idempotency()
        .sqs(move |message: Message<Payment>| {
            if asked_too.fetch_add(1, Ordering::Relaxed) == 1 {
                wire.always("TransactWriteItems", Fault::Silence(40 * SECOND));
            }
            let transaction: Transaction = crate::support::pay(&tables, &message.body);
            async move { Ok(transaction) }
        })
        .concurrency(1);
    let failures = lab.failures(&service, batch(records)).await;
    assert_eq!(failures, ["m-1", "m-2"]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(lab.balance("a").await, 10);
    // The fault itself takes longer than the invocation has; nothing is tried after that.
    assert_eq!(
        lab.clock.now().duration_since(started).unwrap(),
        40 * SECOND
    );
}

#[tokio::test]
async fn one_context_after_another_is_reckoned_for_itself() {
    let lab = Lab::new().await;
    let service = payments(&lab);
    for at in 0..3_u64 {
        let deadline = lab.clock.now() + 3 * SECOND;
        let record = Record::payment(&format!("m-{at}"), &format!("p-{at}"));
        let response = lab.process_until(deadline, &service, batch([record]));
        let response = response.await.unwrap();
        assert!(response.batch_item_failures.is_empty());
        lab.clock.advance(600 * SECOND);
    }
    assert_eq!(lab.balance("a").await, 30);
}
