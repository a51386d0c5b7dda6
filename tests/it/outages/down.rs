//! A store that does not work: from the start, or from the middle of a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lambda_idempotency::{HandlerError, Message, SqsService, Transaction};
use serde_json::json;

use super::{
    SECOND, asked_for, assert_exact, assert_none_lost, assert_recovers, deliver, lab, messages,
};
use crate::support::{Bank, Fault, Lab, Payment, pay};

/// What a store that applies nothing says, or does not say.
fn faults() -> Vec<Fault> {
    vec![
        Fault::Refused,
        Fault::Reset,
        Fault::code("InternalServerError"),
        Fault::Answer(503, json!({})),
        Fault::code("ThrottlingException"),
        Fault::code("AccessDeniedException"),
        Fault::code("ResourceNotFoundException"),
        Fault::code("ValidationException"),
        Fault::code("UnrecognizedClientException"),
        // A 400 that says nothing.
        Fault::Answer(400, json!({})),
    ]
}

/// The first messages that run side by side, and those that follow until three have failed.
const MOST_TRIED: usize = 10 + 2;

/// What is tried for 20 s, each time up to a second later.
const TRIES: usize = 25;

/// And then for 1 s it is given back, or looked up whether it landed.
const MOST_REQUESTS_OF_ONE: usize = TRIES + 15;

#[tokio::test]
async fn a_store_that_is_down_from_the_start_is_asked_for_a_few_messages_and_all_are_reported() {
    for fault in faults() {
        let lab = lab().await;
        let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
        lab.store_fails(&fault);
        let messages = messages(60);
        let reported = deliver(&lab, &service, &messages, 60 * SECOND).await;
        assert_eq!(reported.len(), 60, "{fault:?}");
        assert!(lab.wire.most_in_flight() <= 10);
        let requests: u32 = lab.take_reports().iter().map(|told| told.requests).sum();
        let tried = asked_for(&lab).len();
        assert!(tried <= MOST_TRIED, "{tried} were tried: {fault:?}");
        assert!(
            requests as usize <= tried * MOST_REQUESTS_OF_ONE,
            "{requests} requests: {fault:?}"
        );
        assert_exact(&lab, &messages, &reported).await;
        assert_recovers(&lab, &service, &messages, &reported).await;
    }
}

/// A bank whose store breaks so when this many handlers have run.
fn breaks_after(
    lab: &Arc<Lab>,
    handlers: u32,
    fault: Fault,
) -> SqsService<impl lambda_idempotency::Handler<Payment> + use<>, Payment> {
    let ran = AtomicU32::new(0);
    let inner = Arc::clone(lab);
    lab.idempotency().sqs(move |message: Message<Payment>| {
        if ran.fetch_add(1, Ordering::Relaxed) + 1 == handlers {
            inner.wire.take_sent();
            inner.store_fails(&fault);
        }
        let writes = pay(&inner.tables, &message.body);
        async { Ok::<Transaction, HandlerError>(writes) }
    })
}

#[tokio::test]
async fn a_store_that_goes_down_in_mid_batch_leaves_done_what_is_done_and_the_rest_is_reported() {
    for fault in faults() {
        let lab = Arc::new(lab().await);
        let service = breaks_after(&lab, 20, fault.clone());
        let messages = messages(60);
        let reported = deliver(&lab, &service, &messages, 60 * SECOND).await;
        // Those that were under way, and as many as it takes to see that it is of no use.
        let tried = asked_for(&lab).len();
        assert!(tried <= MOST_TRIED, "{tried} were tried: {fault:?}");
        assert!(
            (31..=50).contains(&reported.len()),
            "{}: {fault:?}",
            reported.len()
        );
        assert_exact(&lab, &messages, &reported).await;
        assert_recovers(&lab, &service, &messages, &reported).await;
    }
}

#[tokio::test]
async fn a_store_that_applies_and_does_not_answer_any_more_loses_nothing_and_repeats_nothing() {
    for fault in [
        Fault::LostReply,
        Fault::AnswerInstead(500, json!({})),
        Fault::AnswerInstead(400, json!({})),
        Fault::AnswerInstead(400, json!({ "__type": "x#ThrottlingException" })),
    ] {
        let lab = Arc::new(lab().await);
        let service = breaks_after(&lab, 20, fault.clone());
        let messages = messages(60);
        let reported = deliver(&lab, &service, &messages, 60 * SECOND).await;
        assert!(reported.len() >= 30, "{}: {fault:?}", reported.len());
        assert_none_lost(&lab, &messages, &reported).await;
        assert_recovers(&lab, &service, &messages, &reported).await;
    }
}
