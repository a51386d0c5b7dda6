//! The SDK's own retries: its answer speaks for its last try only, an earlier one may have landed.

use lambda_idempotency::{Done, Idempotency};
use serde_json::json;

use crate::support::{Bank, COMMIT, Fault, KEY, Lab, Record, Step, batch};

/// On the store as users have it, with two SDK attempts a request.
fn idempotency(lab: &Lab) -> Idempotency {
    lab.builder_on(lab.store().attempts(2)).build().unwrap()
}

#[tokio::test]
async fn a_commit_that_landed_before_the_sdk_s_second_try_is_found() {
    for second in [
        Fault::Refused,
        Fault::code("AccessDeniedException"),
        Fault::code("ValidationException"),
        Fault::cancelled(&["None", "ConditionalCheckFailed", "None"]),
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, Fault::LostReply);
        lab.wire.next(COMMIT, second.clone());
        let paid = lab.pay(&idempotency(&lab)).await.unwrap();
        assert_eq!(paid, Done::Completed("paid".to_owned()), "{second:?}");
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn a_transaction_is_sent_again_by_the_protocol_alone_so_that_each_try_is_seen() {
    for fault in [
        Fault::LostReply,
        Fault::Reset,
        Fault::code("InternalServerError"),
        Fault::code("RequestTimeoutException"),
        Fault::Answer(408, json!({ "__type": "OfAProxy" })),
    ] {
        let lab = Lab::new().await;
        let store = lab.store().attempts(5);
        let service = lab.builder_on(store).build().unwrap();
        let service = service.sqs(Bank(lab.tables.clone()));
        lab.wire.next(COMMIT, fault);
        let payment = batch([Record::payment("m-1", KEY)]);
        assert!(lab.failures(&service, payment).await.is_empty());
        let sent = lab.wire.take_sent();
        let operations: Vec<&str> = sent.iter().map(|sent| sent.operation.as_str()).collect();
        let expected = lab.steps(&[Step::Claim, Step::Commit, Step::Commit]);
        assert_eq!(operations, expected);
        assert_eq!(lab.take_report().requests as usize, sent.len());
        // The same commit, under the same client token.
        let [.., first, second] = sent.as_slice() else {
            unreachable!("two commits were sent")
        };
        assert_eq!(first.body, second.body);
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn a_commit_that_can_not_be_settled_is_unknown_and_not_said_to_be_undone() {
    for second in [
        Fault::Refused,
        Fault::code("AccessDeniedException"),
        Fault::code("ValidationException"),
        Fault::cancelled(&["None", "ConditionalCheckFailed", "None"]),
        Fault::cancelled(&["None", "TransactionConflict", "None"]),
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, Fault::LostReply);
        lab.wire.next(COMMIT, second.clone());
        lab.wire.always(COMMIT, Fault::Refused);
        lab.wire.always(lab.settles(), Fault::Refused);
        let error = lab.pay(&idempotency(&lab)).await.unwrap_err();
        assert_eq!(lab.balance("a").await, 10);
        assert!(error.is_unknown(), "{second:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_late_copy_of_an_unknown_try_is_not_forgotten_when_the_next_one_is_refused() {
    for second in [
        Fault::code("ValidationException"),
        Fault::cancelled(&["None", "ConditionalCheckFailed", "None"]),
    ] {
        let lab = Lab::new().await;
        lab.wire.next(COMMIT, Fault::Late);
        lab.wire.next(COMMIT, second.clone());
        lab.wire.always(lab.settles(), Fault::Reset);
        let error = lab.pay(&lab.idempotency()).await.unwrap_err();
        assert!(error.is_unknown(), "{second:?}: {error:?}");
        assert_eq!(lab.wire.deliver_late().await, [200]);
        assert_eq!(lab.balance("a").await, 10);
    }
}

#[tokio::test]
async fn a_claim_that_landed_before_the_sdk_s_second_try_is_given_back() {
    for second in [Fault::Refused, Fault::code("AccessDeniedException")] {
        let lab = Lab::claiming_first().await;
        lab.wire.next("PutItem", Fault::LostReply);
        lab.wire.next("PutItem", second);
        assert!(lab.pay(&idempotency(&lab)).await.unwrap_err().is_store());
        assert_eq!(lab.record(KEY).await, None);
    }
}
