//! Panics of the user's code, wherever they come from, stay with their message.

use std::fmt;
use std::time::Duration;

use lambda_idempotency::{HandlerError, Message, Outcome, Reason, Report, Transaction};

use crate::support::{Lab, Record, batch};

#[derive(Debug)]
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[tokio::test]
async fn in_a_destructor_of_a_handler_that_is_cut_off() {
    let lab = Lab::new().await;
    let clock = lab.clock.clone();
    let service = lab
        .idempotency()
        .sqs(move |message: Message<u32>| {
            let clock = clock.clone();
            async move {
                if message.body == 1 {
                    let _guard = PanicsWhenDropped;
                    clock.advance(Duration::from_secs(29));
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        })
        .concurrency(1);
    let records = [Record::new("m-0", 0), Record::new("m-1", 1)];
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-1"]);
    assert_eq!(lab.take_reports()[1].reason, Some(Reason::Panic));
    assert_eq!(lab.record("m-1").await, None, "given back all the same");
}

#[derive(serde::Deserialize)]
#[serde(from = "u32")]
struct Body {
    _guard: PanicsWhenDropped,
}

impl From<u32> for Body {
    fn from(_: u32) -> Self {
        Self {
            _guard: PanicsWhenDropped,
        }
    }
}

#[tokio::test]
async fn in_a_destructor_of_the_body_of_a_duplicate() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(async |message: Message<Body>| {
        std::mem::forget(message);
        Ok(())
    });
    let first = [Record::new("m-0", 0), Record::new("m-1", 1)];
    assert!(lab.failures(&service, batch(first)).await.is_empty());
    // A message that was received before is known to be done before its handler runs.
    let again = [Record::new("m-0", 0), Record::new("m-2", 2)]
        .map(|record| record.attribute("ApproximateReceiveCount", "2"));
    assert_eq!(lab.failures(&service, batch(again)).await, ["m-0"]);
}

/// An error whose text can't be had.
#[derive(Debug)]
struct Unspeakable {
    panics: bool,
}

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.panics {
            panic!("display");
        }
        Err(fmt::Error)
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test]
async fn in_the_text_of_the_handler_s_own_error() {
    for panics in [true, false] {
        let lab = Lab::new().await;
        let idempotency = lambda_idempotency::Idempotency::builder(lab.store())
            .consumer("tests")
            .claim(lab.mode.claim())
            .clock(lab.clock.clone())
            .build()
            .unwrap();
        let service = idempotency.sqs(move |message: Message<u32>| async move {
            if message.body == 0 {
                return Err(HandlerError::from(Unspeakable { panics }));
            }
            Ok(())
        });
        let records = [Record::new("m-0", 0), Record::new("m-1", 1)];
        assert_eq!(lab.failures(&service, batch(records)).await, ["m-0"]);
        assert_eq!(lab.record("m-0").await, None);
    }
}

struct PanicsWhenWritten;

impl serde::Serialize for PanicsWhenWritten {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("written")
    }
}

#[tokio::test]
async fn in_everything_that_is_called_for_a_message() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let fine = async |_: Message<u32>| Ok(());
    let record = || batch([Record::new("m", 0)]);

    let result = async |_: Message<u32>| Ok(Transaction::new().returning(PanicsWhenWritten));
    assert_eq!(
        lab.failures(&idempotency.sqs(result), record()).await,
        ["m"]
    );
    let skip = idempotency.sqs(fine).skip(|_| panic!("skip"));
    assert_eq!(lab.failures(&skip, record()).await, ["m"]);
    let key = idempotency
        .sqs(fine)
        .key_by(|_: &u32| -> String { panic!("key") });
    assert_eq!(lab.failures(&key, record()).await, ["m"]);
    let decode = idempotency.sqs_with(|_| panic!("decode"), fine);
    assert_eq!(lab.failures(&decode, record()).await, ["m"]);
    let at_once =
        |_: Message<u32>| -> std::future::Ready<Result<(), HandlerError>> { panic!("go") };
    assert_eq!(
        lab.failures(&idempotency.sqs(at_once), record()).await,
        ["m"]
    );

    for report in lab.take_reports() {
        assert_eq!(
            (report.outcome, report.reason),
            (Outcome::Failed, Some(Reason::Panic))
        );
    }
    assert_eq!(lab.record("m").await, None);
}

/// An error that panics when it is dropped.
#[derive(Debug)]
struct Dropped {
    _guard: PanicsWhenDropped,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Dropped {}

#[tokio::test]
async fn in_a_destructor_of_the_handler_s_own_error_or_of_what_was_panicked_with() {
    let lab = Lab::new().await;
    let observer = |report: &Report| {
        if report.message_id.as_deref() == Some("m-0") {
            std::panic::panic_any(PanicsWhenDropped);
        }
    };
    let observed = lab.builder().observer(observer).build().unwrap();
    let one = batch([Record::new("m-0", 0)]);
    let service = observed.sqs(async |_: Message<u32>| Ok(()));
    assert!(lab.failures(&service, one).await.is_empty());

    let service = lab
        .idempotency()
        .sqs(async |message: Message<u32>| match message.body {
            1 => Err(HandlerError::from(Dropped {
                _guard: PanicsWhenDropped,
            })),
            2 => std::panic::panic_any(PanicsWhenDropped),
            _ => Ok(()),
        })
        .concurrency(1);
    let records = (1..4).map(|n| Record::new(&format!("m-{n}"), n));
    assert_eq!(lab.failures(&service, batch(records)).await, ["m-1", "m-2"]);
    let reasons: Vec<_> = lab.take_reports().iter().map(|told| told.reason).collect();
    let expected = [Some(Reason::Handler), Some(Reason::Panic), None];
    assert_eq!(reasons, expected);
}
