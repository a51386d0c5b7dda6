//! The fingerprint of a payload: its meaning counts, its spelling does not.
//!
//! The input is a body. (Bytes that are no UTF-8 are replaced: SQS delivers text.)

use lambda_idempotency::store::Fingerprint;
use lambda_idempotency::{Clock as _, Delivery, HandlerError, Message};

use crate::support::json::Json;
use crate::support::{ManualClock, Memory, TIME, Tells, batch_of, block_on, context, draws_of};

/// Tries one body.
///
/// # Panics
///
/// If it has no fingerprint, another one when it is written in another way, or the same one when it
/// is changed in one place.
pub fn fingerprint(data: &[u8]) {
    let body = String::from_utf8_lossy(data);
    let mut draws = draws_of(data);
    let ours = of(&body);
    assert_eq!(ours.as_str().len(), 64);
    let Some(json) = Json::read(&body) else {
        // Text counts to the letter, and so does what can't be told from it.
        assert_ne!(ours, of(&format!("{body}x")));
        return;
    };
    let other_spelling = json.spelled(&mut draws);
    assert_eq!(ours, of(&other_spelling), "{body:?} is {other_spelling:?}");
    let mut changed = json.clone();
    changed.change(&mut draws);
    let changed = changed.spelled(&mut draws);
    assert_ne!(ours, of(&changed), "{body:?} is not {changed:?}");
    assert_ne!(ours, of(&format!("{body}x")));
}

/// The fingerprint that the claim of a message with this body holds.
fn of(body: &str) -> Fingerprint {
    let (clock, tells, memory) = (ManualClock::new(), Tells::default(), Memory::default());
    let idempotency = tells.builder(memory.clone(), &clock).build().unwrap();
    let service = idempotency
        .sqs_with(
            |_: &Delivery| Ok(()),
            |_: Message<()>| async { Ok::<(), HandlerError>(()) },
        )
        .fingerprint_body();
    let record = format!(
        r#"{{"messageId":"m-1","body":{}}}"#,
        serde_json::to_string(body).unwrap()
    );
    let response =
        block_on(service.process(batch_of(&[&record]), &context(clock.now(), TIME))).unwrap();
    assert!(response.batch_item_failures.is_empty());
    tells.take(1);
    let fingerprint = memory.state().fingerprint.take();
    fingerprint.expect("every body has a fingerprint")
}
