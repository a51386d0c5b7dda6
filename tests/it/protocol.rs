//! First steps.

use lambda_idempotency::{Key, Outcome};

use crate::support::{Bank, Lab, Record, batch};

#[tokio::test]
async fn a_first_delivery_takes_two_requests_and_a_duplicate_one() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Bank(lab.tables.clone()))
        .key(Key::body("/id").unwrap());

    let failures = lab
        .failures(&service, batch([Record::payment("m-1", "p-1")]))
        .await;
    assert!(failures.is_empty());
    assert_eq!(
        lab.wire.take_operations(),
        ["PutItem", "TransactWriteItems"]
    );
    assert_eq!(lab.take_report().outcome, Outcome::Completed);
    assert_eq!(lab.balance("a").await, 10);

    let failures = lab
        .failures(&service, batch([Record::payment("m-2", "p-1")]))
        .await;
    assert!(failures.is_empty());
    assert_eq!(lab.wire.take_operations(), ["PutItem"]);
    assert_eq!(lab.take_report().outcome, Outcome::Duplicate);
    assert_eq!(lab.balance("a").await, 10);
}
