//! Calls that are no messages, and the results that come back.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use lambda_idempotency::{
    Attempt, Claim, Clock as _, Done, HandlerError, Idempotency, SystemClock, Transaction,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Fault, Hold, Lab, Payment, pay};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Receipt {
    charge: String,
    cents: u64,
}

fn soon(lab: &Lab) -> SystemTime {
    lab.clock.now() + Duration::from_secs(30)
}

#[tokio::test]
async fn a_call_is_completed_once_and_then_a_duplicate_with_its_stored_result() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let payment = Payment {
        id: "p-1".into(),
        account: "a".into(),
        amount: 10,
    };
    let receipt = |cents| Receipt {
        charge: "c-1".into(),
        cents,
    };
    for (cents, expected) in [
        (10, Done::Completed(receipt(10))),
        (99, Done::Duplicate(Some(receipt(10)))),
    ] {
        let done = idempotency
            .run("p-1", &payment, soon(&lab), async |attempt: Attempt| {
                assert_eq!(attempt.downstream_key("charge").len(), 64);
                assert!(attempt.deadline() < soon(&lab));
                Ok(pay(&lab.tables, &payment).returning(receipt(cents)))
            })
            .await
            .unwrap();
        assert_eq!(done, expected);
        assert_eq!(done.into_result(), Some(receipt(10)));
    }
    assert_eq!(lab.balance("a").await, 10);
    let reports = lab.take_reports();
    assert!(reports.iter().all(|told| told.message_id.is_none()));
    assert_eq!(reports[1].outcome.as_str(), "duplicate");
}

#[tokio::test]
async fn a_call_names_the_results_that_are_not_done() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    // Whoever holds a key before its work is done has claimed it first.
    let holder = lab.builder().claim(Claim::First).build().unwrap();
    let hold = Hold::default();
    let payload = json!({ "amount": 10 });
    let running = holder.run("k", &payload, soon(&lab), async |_| {
        hold.here().await;
        Ok(())
    });
    let meanwhile = async {
        hold.reached().await;
        let again = idempotency.run("k", &payload, soon(&lab), async |_| Ok(()));
        let error = again.await.unwrap_err();
        assert!(error.is_in_progress(), "{error}");
        let other = json!({ "amount": 11 });
        let tampered = idempotency.run("k", &other, soon(&lab), async |_| Ok(()));
        let error = tampered.await.unwrap_err();
        assert!(error.is_payload_mismatch(), "{error}");
        hold.let_go();
    };
    assert_eq!(
        tokio::join!(running, meanwhile).0.unwrap(),
        Done::Completed(())
    );

    // The same payload in other words, and no payload at all, are no mismatch.
    let spelled: Value = serde_json::from_str(r#"{ "amount" : 1e1 }"#).unwrap();
    let duplicate = idempotency.run("k", &spelled, soon(&lab), async |_| Ok(()));
    assert_eq!(duplicate.await.unwrap(), Done::Duplicate(Some(())));
    let duplicate = idempotency.run("k", &(), soon(&lab), async |_| Ok(()));
    assert_eq!(duplicate.await.unwrap(), Done::Duplicate(Some(())));

    let empty = idempotency.run(" ", &(), soon(&lab), async |_| Ok(()));
    assert!(empty.await.unwrap_err().is_key());
    let failing = idempotency.run("f", &(), soon(&lab), async |_| {
        Err::<(), HandlerError>("no funds".into())
    });
    let error = failing.await.unwrap_err();
    assert!(error.is_handler() && !error.is_permanent());
    let panicking = idempotency.run("p", &(), soon(&lab), async |_| {
        panic!("at the disco");
        #[expect(unreachable_code, reason = "says what the work would return")]
        Ok(())
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert!(lab.record("f").await.is_none() && lab.record("p").await.is_none());
}

#[tokio::test]
async fn a_call_whose_commit_is_not_known_says_so_and_the_next_one_finds_out() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let payment = Payment {
        id: "p-1".into(),
        account: "a".into(),
        amount: 10,
    };
    lab.wire.next("TransactWriteItems", Fault::LostReply);
    lab.wire.always("TransactWriteItems", Fault::Reset);
    lab.wire.always(lab.settles(), Fault::Reset);
    let work = async |_| Ok(pay(&lab.tables, &payment).returning(7));
    let unknown = idempotency.run("p-1", &(), soon(&lab), work).await;
    let error = unknown.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("same key"), "{error}");
    lab.wire.heal();
    let found = idempotency.run("p-1", &(), soon(&lab), work).await;
    assert_eq!(found.unwrap(), Done::Duplicate(Some(7)));
    assert_eq!(lab.balance("a").await, 10);
}

#[tokio::test]
async fn every_kind_of_result_comes_back_as_it_was() {
    async fn both<R>(lab: &Lab, key: &str, result: R)
    where
        R: Serialize + for<'de> Deserialize<'de> + Clone + PartialEq + Debug + Send + Sync,
    {
        let idempotency = lab.idempotency();
        let work = async |_| Ok(Transaction::new().returning(result.clone()));
        let first = idempotency.run(key, &(), soon(lab), work).await.unwrap();
        assert_eq!(first, Done::Completed(result.clone()));
        let again = idempotency.run(key, &(), soon(lab), work).await.unwrap();
        assert_eq!(again, Done::Duplicate(Some(result.clone())));
    }
    let lab = Lab::new().await;
    both(&lab, "null", Value::Null).await;
    both(&lab, "false", false).await;
    both(&lab, "zero", 0_i64).await;
    both(&lab, "u128", u128::from(u64::MAX)).await;
    both(&lab, "f64", -0.1_f64).await;
    both(&lab, "empty text", String::new()).await;
    both(&lab, "text", "\u{0}\"ü\u{1F980}\n".to_owned()).await;
    both(&lab, "array", json!([])).await;
    both(&lab, "object", json!({})).await;
    both(&lab, "nested", json!({ "a": [null, { "b": 1.5 }] })).await;
    both(&lab, "none", None::<u8>).await;
    both(&lab, "some", Some(3_u8)).await;
    both(&lab, "map", BTreeMap::from([("a".to_owned(), 1)])).await;
    both(
        &lab,
        "receipt",
        Receipt {
            charge: "c".into(),
            cents: 1,
        },
    )
    .await;
}

#[tokio::test]
async fn a_float_comes_back_to_its_last_bit() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    // `serde_json` reads these wrongly by one bit unless it is told to take the time.
    for (key, float) in [("1", -922_603.913_085_937_5), ("2", 924_315.124_023_437_5)] {
        let work = async |_| Ok(Transaction::new().returning(float));
        let first = idempotency.run(key, &(), soon(&lab), work).await;
        assert_eq!(first.unwrap(), Done::Completed(float));
        let again = idempotency.run(key, &(), soon(&lab), work).await;
        assert_eq!(again.unwrap(), Done::Duplicate(Some(float)));
    }
}

#[tokio::test]
async fn no_result_is_not_the_result_null() {
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let first = idempotency
        .run("unit", &(), soon(&lab), async |_| Ok(()))
        .await;
    assert_eq!(first.unwrap(), Done::Completed(()));
    assert!(!lab.record("unit").await.unwrap().contains_key("data"));
    let again = idempotency
        .run("unit", &(), soon(&lab), async |_| Ok(()))
        .await;
    assert_eq!(again.unwrap(), Done::Duplicate(Some(())));
    // Where nothing is stored, a caller that expects something is told so.
    let expects = idempotency
        .run("unit", &(), soon(&lab), async |_| {
            Ok(Transaction::new().returning(5_u8))
        })
        .await;
    assert_eq!(expects.unwrap(), Done::Duplicate(None));
    let null = async |_| Ok(Transaction::new().returning(Value::Null));
    idempotency
        .run("null", &(), soon(&lab), null)
        .await
        .unwrap();
    let record = lab.record("null").await.unwrap();
    assert_eq!(record["data"].as_s().unwrap(), "null");
}

/// A result that its own type can't read back.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OneWay {
    #[serde(rename(serialize = "written", deserialize = "read"))]
    value: u8,
}

#[tokio::test]
async fn a_result_that_a_duplicate_could_not_read_fails_before_anything_is_written() {
    let lab = Lab::new().await;
    let work = async |_| {
        let transaction = Transaction::new().put(&lab.tables.payments, json!({ "id": "x" }));
        Ok(transaction.returning(OneWay { value: 1 }))
    };
    let error = lab.idempotency().run("k", &(), soon(&lab), work).await;
    let error = error.unwrap_err();
    assert!(
        format!("{error:?}").contains("can't be read back"),
        "{error:?}"
    );
    assert_eq!(lab.count(&lab.tables.payments).await, 0);
    assert_eq!(lab.records().await, 0);
}

#[tokio::test]
async fn the_clock_of_the_system_is_the_default_and_its_time_is_now() {
    let lab = Lab::new().await;
    let idempotency = Idempotency::builder(lab.store())
        .consumer("tests")
        .build()
        .unwrap();
    let deadline = SystemClock.now() + Duration::from_secs(60);
    let done = idempotency.run("k", &(), deadline, async |_| Ok(())).await;
    assert_eq!(done.unwrap(), Done::Completed(()));
    let expiration = lab.record("k").await.unwrap()["expiration"].clone();
    let expiration: u64 = expiration.as_n().unwrap().parse().unwrap();
    let year_2026 = 1_767_225_600;
    assert!(expiration > year_2026, "{expiration}");
}
