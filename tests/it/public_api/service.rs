//! Handlers, and the service that they become.

use std::sync::Mutex;
use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use lambda_idempotency::{
    Attempt, Attribute, Clock as _, Delivery, Done, Error, Handler, HandlerError, Idempotency,
    IntoTransaction, Key, Message, Report, SqsBatch, SqsService, Transaction, Write,
};
use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde_json::{Value, json};
use tower::Service;

use crate::support::{Bank, Lab, Payment, Record, batch, context};

// Compiled, never run: they would ask Lambda's runtime API for events.
#[expect(dead_code, reason = "only that they compile is of interest")]
mod compiles {
    use super::*;

    async fn run(idempotency: Idempotency) -> Result<(), lambda_runtime::Error> {
        lambda_runtime::run(idempotency.sqs(nothing)).await
    }

    async fn run_with_options(idempotency: Idempotency) -> Result<(), lambda_runtime::Error> {
        let service = idempotency
            .sqs(nothing)
            .key(Key::body("/id")?)
            .fingerprint_at("/amount")?
            .concurrency(4);
        lambda_runtime::run(service).await
    }

    async fn run_concurrent(idempotency: Idempotency) -> Result<(), lambda_runtime::Error> {
        lambda_runtime::run_concurrent(idempotency.sqs(nothing)).await
    }
}

async fn nothing(_: Message<Value>) -> Result<(), HandlerError> {
    Ok(())
}

fn is_service<S>(service: S) -> S
where
    S: Service<LambdaEvent<SqsBatch>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    service
}

fn is_shared<T: Send + Sync + 'static>() {}

#[tokio::test]
async fn everything_can_be_shared_between_threads_and_the_service_cloned() {
    is_shared::<Idempotency>();
    is_shared::<SqsBatch>();
    is_shared::<Message<Payment>>();
    is_shared::<Delivery>();
    is_shared::<Attribute>();
    is_shared::<Attempt>();
    is_shared::<Transaction<Payment>>();
    is_shared::<Write>();
    is_shared::<HandlerError>();
    is_shared::<Error>();
    is_shared::<Key>();
    is_shared::<Report>();
    is_shared::<Done<Payment>>();
    let lab = Lab::new().await;
    // Whatever the handler holds that is not `Clone`.
    struct NotClone(Mutex<u8>);
    impl Handler<Payment> for NotClone {
        type Output = ();
        async fn handle(&self, _: Message<Payment>) -> Result<(), HandlerError> {
            *self.0.lock().unwrap() += 1;
            Ok(())
        }
    }
    let service = is_service(lab.idempotency().sqs(NotClone(Mutex::new(0))));
    let mut copy = service.clone();
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let event = LambdaEvent::new(batch([Record::payment("m-1", "p-1")]), context(deadline));
    let response = tokio::spawn(copy.call(event)).await.unwrap().unwrap();
    assert_eq!(
        serde_json::to_string(&response).unwrap(),
        r#"{"batchItemFailures":[]}"#
    );
}

/// What `lambda_runtime` does with the bytes of an invocation: decode, call, encode.
async fn invoke<S>(lab: &Lab, service: &mut S, event: &str) -> Result<String, String>
where
    S: Service<LambdaEvent<SqsBatch>, Error = Error>,
    S::Response: Serialize,
{
    let batch = serde_json::from_str(event).map_err(|error| error.to_string())?;
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let answer = service.call(LambdaEvent::new(batch, context(deadline)));
    let response = answer.await.map_err(|error| {
        let diagnostic = lambda_runtime::Diagnostic::from(error);
        assert_eq!(diagnostic.error_type, "lambda_idempotency::Error");
        diagnostic.error_message
    })?;
    Ok(serde_json::to_string(&response).unwrap())
}

#[tokio::test]
async fn an_event_s_bytes_become_a_response_s_bytes() {
    let lab = Lab::new().await;
    let mut service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let event = |records: &[Record]| {
        let records: Vec<&Value> = records.iter().map(|record| &record.0).collect();
        json!({ "Records": records }).to_string()
    };
    let mixed = event(&[
        Record::payment("m-2", "p-2"),
        Record::new("m-3", "no payment"),
        Record::new("m-1", "none either"),
    ]);
    assert_eq!(
        invoke(&lab, &mut service, &mixed).await.unwrap(),
        r#"{"batchItemFailures":[{"itemIdentifier":"m-3"},{"itemIdentifier":"m-1"}]}"#
    );
    let nameless = event(&[Record::new("x", "x").without("messageId")]);
    let error = invoke(&lab, &mut service, &nameless).await.unwrap_err();
    assert!(error.contains("no `messageId`"), "{error}");
    let error = invoke(&lab, &mut service, "{}").await.unwrap_err();
    assert!(error.contains("not an SQS event"), "{error}");
}

#[tokio::test]
async fn functions_closures_and_structs_are_handlers() {
    async fn function(message: Message<Payment>) -> Result<Transaction<String>, HandlerError> {
        Ok(Transaction::new().returning(message.body.id))
    }
    struct Several(String);
    impl Handler<Payment> for Several {
        type Output = Transaction<String>;
        async fn handle(&self, _: Message<Payment>) -> Result<Self::Output, HandlerError> {
            Ok(Transaction::new().returning(format!("{} payment", self.0)))
        }
    }
    impl Handler<Vec<u8>> for Several {
        type Output = Transaction<String>;
        async fn handle(&self, message: Message<Vec<u8>>) -> Result<Self::Output, HandlerError> {
            let said = format!("{} {} bytes", self.0, message.body.len());
            Ok(Transaction::new().returning(said))
        }
    }
    async fn returns<H: Handler<B>, B: Send + 'static>(
        lab: &Lab,
        service: SqsService<H, B>,
        body: &str,
    ) -> Option<String> {
        let id = format!("m-{}", uuid::Uuid::new_v4());
        let failures = lab
            .failures(&service, batch([Record::new(&id, body)]))
            .await;
        assert!(failures.is_empty());
        lab.take_report().result
    }
    let lab = Lab::new().await;
    let idempotency = lab.idempotency();
    let payment = r#"{"id":"p-1","account":"a","amount":10}"#;
    let greeting = "hello".to_owned();
    let closure = move |message: Message<Payment>| {
        let said = format!("{greeting} {}", message.body.id);
        async move { Ok(Transaction::new().returning(said)) }
    };
    let quoted = |text: &str| Some(format!("{text:?}"));
    assert_eq!(
        returns(&lab, idempotency.sqs(function), payment).await,
        quoted("p-1")
    );
    assert_eq!(
        returns(&lab, idempotency.sqs(closure), payment).await,
        quoted("hello p-1")
    );
    let several = || Several("a".to_owned());
    assert_eq!(
        returns(&lab, idempotency.sqs::<Payment, _>(several()), payment).await,
        quoted("a payment")
    );
    assert_eq!(
        returns(&lab, idempotency.sqs::<Vec<u8>, _>(several()), "[1,2]").await,
        quoted("a 2 bytes")
    );
    let decoded = idempotency.sqs_with(
        |delivery: &Delivery| Ok(delivery.body().bytes().collect::<Vec<u8>>()),
        several(),
    );
    assert_eq!(returns(&lab, decoded, "abc").await, quoted("a 3 bytes"));
    assert_eq!(returns(&lab, idempotency.sqs(nothing), "{}").await, None);
}

#[tokio::test]
async fn an_event_that_is_parsed_already_is_taken_too() {
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(Bank(lab.tables.clone()));
    let records = [Record::payment("m-1", "p-1").0, Record::new("m-2", "x").0];
    let event: SqsEvent = serde_json::from_value(json!({ "Records": records })).unwrap();
    let deadline = lab.clock.now() + Duration::from_secs(30);
    let response = service.process(event, &context(deadline)).await.unwrap();
    assert_eq!(response.batch_item_failures.len(), 1);
    assert_eq!(response.batch_item_failures[0].item_identifier, "m-2");
}

#[tokio::test]
async fn what_question_marks_take_becomes_a_handler_s_error_with_its_causes() {
    async fn failing(message: Message<Value>) -> Result<(), HandlerError> {
        match message.body["how"].as_str() {
            Some("parse") => drop("x".parse::<u64>()?),
            Some("io") => Err(std::io::Error::other("the disk is full"))?,
            Some("text") => return Err("just so".into()),
            Some("permanent") => return Err(HandlerError::permanent("never")),
            _ => {}
        }
        Ok(())
    }
    let lab = Lab::new().await;
    let service = lab.idempotency().sqs(failing);
    for (how, told) in [
        ("parse", "invalid digit found in string"),
        ("io", "the disk is full"),
        ("text", "just so"),
        ("permanent", "never"),
    ] {
        let one = batch([Record::new("m-1", json!({ "how": how }))]);
        assert_eq!(lab.failures(&service, one).await, ["m-1"]);
        let report = lab.take_report();
        assert_eq!(report.reason.unwrap().as_str(), "handler");
        assert!(report.error.unwrap().contains(told));
    }
}

#[tokio::test]
async fn a_handler_is_tested_without_aws() {
    let payment = Payment {
        id: "p-1".into(),
        account: "a".into(),
        amount: 10,
    };
    let lab = Lab::new().await;
    let bank = Bank(lab.tables.clone());
    let output = bank.handle(Message::new(payment)).await.unwrap();
    let transaction = output.into_transaction();
    transaction.check().unwrap();
    assert_eq!(transaction.writes().len(), 2);
    let items: Vec<Payment> = transaction.items(&lab.tables.payments).unwrap();
    assert_eq!(items[0].id, "p-1");
    assert!(transaction.items::<u8>(&lab.tables.payments).is_err());
    assert!(transaction.alternative().is_none());
    assert!(lab.wire.take_operations().is_empty());
}
