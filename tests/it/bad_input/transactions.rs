//! Transactions that can never be committed: found before anything is sent where that can be, else
//! refused by DynamoDB; told by name; and nothing is left of them.

use std::fmt::Debug;

use aws_sdk_dynamodb::types::{AttributeValue, Delete, TransactWriteItem, Update};
use lambda_idempotency::{Handler, HandlerError, Message, Transaction};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::support::{Lab, Payment, Record, Step, Tables, batch, pay};

/// Makes the transaction that the payment's id asks for.
struct Troubled<F>(Tables, F);

impl<F> Handler<Payment> for Troubled<F>
where
    F: Fn(&Tables, Transaction) -> Transaction<Answer> + Send + Sync + 'static,
{
    type Output = Transaction<Answer>;

    async fn handle(&self, message: Message<Payment>) -> Result<Self::Output, HandlerError> {
        let paid = pay(&self.0, &message.body);
        Ok(match message.body.id.as_str() {
            "good" => paid.returning(Answer::Text("paid".into())),
            _ => (self.1)(&self.0, paid),
        })
    }
}

/// A result, or an item, that may not be writable.
#[derive(Clone)]
enum Answer {
    Text(String),
    Unwritable,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Unwritable => Err(serde::ser::Error::custom("can't be written")),
        }
    }
}

/// A message with this transaction fails with an error that has all of these in it, twice over;
/// the good one beside it completes; and nothing else is left.
async fn refused<T: AsRef<str> + Debug>(
    transaction: impl Fn(&Tables, Transaction) -> Transaction<Answer> + Send + Sync + 'static,
    named: impl Fn(&Tables) -> Vec<T>,
) {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(Troubled(lab.tables.clone(), transaction));
    for delivery in ["completed", "duplicate"] {
        let both = batch([
            Record::payment("bad", "bad"),
            Record::payment("good", "good"),
        ]);
        assert_eq!(lab.failures(&service, both).await, ["bad"]);
        let mut reports = lab.take_reports();
        reports.sort_by(|one, other| one.message_id.cmp(&other.message_id));
        assert_eq!(reports[1].outcome.as_str(), delivery);
        let told = reports[0].error.as_deref().unwrap();
        assert_eq!(reports[0].reason.unwrap().as_str(), "commit", "{told}");
        for named in named(&lab.tables) {
            assert!(told.contains(named.as_ref()), "{named:?} in {told}");
        }
        // Claim and release, and at most one commit alone or two in groups: none is in vain.
        assert!(reports[0].requests <= 3, "{}", reports[0].requests);
        assert_eq!(lab.balance("a").await, 10);
        assert_eq!(lab.count(&lab.tables.payments).await, 1);
        assert_eq!(lab.records().await, 1);
    }
}

fn done(transaction: Transaction) -> Transaction<Answer> {
    transaction.returning(Answer::Text("done".into()))
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

#[tokio::test]
async fn more_writes_than_a_transaction_takes_are_counted() {
    refused(
        |tables, _| {
            let hundred = (0..100).fold(Transaction::new(), |transaction, n| {
                transaction.put(&tables.payments, json!({ "id": format!("{n}") }))
            });
            done(hundred)
        },
        |_| vec!["100 writes", "99"],
    )
    .await;
}

#[tokio::test]
async fn ninety_nine_writes_beside_the_record_are_committed() {
    let lab = Lab::new().await;
    let tables = lab.tables.clone();
    let service = lab.idempotency().sqs(move |_: Message<Payment>| {
        let most = (0..99).fold(Transaction::new(), |transaction, n| {
            transaction.put(&tables.payments, json!({ "id": format!("{n}") }))
        });
        async { Ok::<_, HandlerError>(most) }
    });
    let one = batch([Record::payment("m-1", "p-1")]);
    assert!(lab.failures(&service, one).await.is_empty());
    assert_eq!(lab.count(&lab.tables.payments).await, 99);
}

#[tokio::test]
async fn an_item_that_is_written_twice_is_named_by_its_second_write_and_table() {
    refused(
        |tables, paid| {
            let delete = |account: &str| {
                let delete = Delete::builder()
                    .table_name(&tables.accounts)
                    .key("id", text(account));
                delete.build().unwrap()
            };
            done(paid.write(delete("b")).write(delete("b")))
        },
        |tables| {
            vec![
                "write 3".to_owned(),
                "delete".to_owned(),
                "same item".to_owned(),
                tables.accounts.clone(),
            ]
        },
    )
    .await;
}

#[tokio::test]
async fn an_item_that_is_put_twice_is_dynamodb_s_to_refuse_where_the_key_is_not_known() {
    refused(
        |tables, _| {
            let item = json!({ "id": "twice" });
            done(
                Transaction::new()
                    .put(&tables.accounts, &item)
                    .put(&tables.accounts, &item),
            )
        },
        |_| vec!["multiple operations on one item"],
    )
    .await;
}

#[tokio::test]
async fn an_item_that_is_put_twice_is_found_before_it_is_sent_where_the_key_is_declared() {
    let lab = Lab::new().await;
    let tables = lab.tables.clone();
    let idempotency = lab.builder().key_attributes(&tables.payments, ["id"]);
    let service = {
        let payments = tables.payments.clone();
        let idempotency = idempotency.build().unwrap();
        idempotency.sqs(move |_: Message<Payment>| {
            let twice = Transaction::new()
                .put(&payments, json!({ "id": "twice", "n": 1 }))
                .put(&payments, json!({ "id": "twice", "n": 2 }));
            async { Ok::<_, HandlerError>(twice) }
        })
    };
    let one = batch([Record::payment("m-1", "p-1")]);
    assert_eq!(lab.failures(&service, one).await, ["m-1"]);
    let steps = lab.steps(&[Step::Claim, Step::GiveBack]);
    assert_eq!(lab.wire.take_operations(), steps);
    let told = lab.take_report().error.unwrap();
    assert!(
        told.contains("write 1") && told.contains(&tables.payments),
        "{told}"
    );
}

#[tokio::test]
async fn a_write_on_the_record_itself_is_refused() {
    refused(
        |tables, paid| {
            let delete = Delete::builder()
                .table_name(&tables.records)
                .key("id", text("tests#bad"))
                .build()
                .unwrap();
            done(paid.write(delete))
        },
        |_| vec!["multiple operations on one item"],
    )
    .await;
}

#[tokio::test]
async fn an_item_a_result_or_a_whole_that_is_too_large_is_measured() {
    refused(
        |tables, paid| {
            let item = json!({ "id": "large", "text": "x".repeat(410_000) });
            done(paid.put(&tables.payments, item))
        },
        |tables| {
            vec![
                "write 2".to_owned(),
                "409600".to_owned(),
                tables.payments.clone(),
            ]
        },
    )
    .await;
    refused(
        |_, paid| paid.returning(Answer::Text("x".repeat(500_000))),
        |_| vec!["the result has 500002 bytes", "407552"],
    )
    .await;
    refused(
        |tables, paid| {
            let all = (0..11).fold(paid, |transaction, n| {
                let item = json!({ "id": format!("{n}"), "text": "x".repeat(400_000) });
                transaction.put(&tables.payments, item)
            });
            done(all)
        },
        |_| vec!["the transaction has about 44", "4194304"],
    )
    .await;
}

#[tokio::test]
async fn an_item_or_a_result_that_can_not_be_written_is_named() {
    refused(
        |tables, paid| done(paid.put(&tables.payments, Answer::Unwritable)),
        |tables| {
            vec![
                tables.payments.clone(),
                "can't be serialised".to_owned(),
                "can't be written".to_owned(),
            ]
        },
    )
    .await;
    // A scalar is no item.
    refused(
        |tables, paid| done(paid.put(&tables.payments, Answer::Text("alone".into()))),
        |tables| vec![tables.payments.clone(), "can't be serialised".to_owned()],
    )
    .await;
    refused(
        |_, paid| paid.returning(Answer::Unwritable),
        |_| vec!["the result can't be serialised", "can't be written"],
    )
    .await;
}

/// This item is refused in words that name its key and its table.
async fn refused_for_its_key(item: serde_json::Value) {
    refused(
        move |tables, paid| done(paid.put(&tables.payments, &item)),
        |tables| vec!["id".to_owned(), tables.payments.clone()],
    )
    .await;
}

#[tokio::test]
async fn an_item_whose_key_is_missing_is_named() {
    refused_for_its_key(json!({ "name": "x" })).await;
}

#[tokio::test]
async fn an_item_whose_key_is_empty_or_of_another_type_is_named() {
    for id in [json!(""), json!(7)] {
        refused_for_its_key(json!({ "id": id, "name": "x" })).await;
    }
}

#[tokio::test]
async fn a_write_without_a_table_or_an_action_is_named() {
    refused(
        |_, paid| done(paid.put("", json!({ "id": "x" }))),
        |_| vec!["write 2", "names no table"],
    )
    .await;
    refused(
        |_, paid| done(paid.write(TransactWriteItem::builder().build())),
        |_| vec!["write 2", "exactly one action"],
    )
    .await;
    refused(
        |tables, paid| {
            let delete = Delete::builder().table_name(&tables.payments);
            let delete = delete.key("id", text("x")).build().unwrap();
            let update = Update::builder()
                .table_name(&tables.payments)
                .key("id", text("x"))
                .update_expression("SET n = n")
                .build()
                .unwrap();
            let both = TransactWriteItem::builder().delete(delete).update(update);
            done(paid.write(both.build()))
        },
        |_| vec!["write 2", "exactly one action"],
    )
    .await;
}

#[tokio::test]
async fn an_expression_that_dynamodb_does_not_take_is_told_in_its_words() {
    refused(
        |tables, paid| {
            let update = Update::builder()
                .table_name(&tables.payments)
                .key("id", text("x"))
                .update_expression("SET SET")
                .build()
                .unwrap();
            done(paid.write(update))
        },
        |tables| vec!["UpdateExpression".to_owned(), tables.payments.clone()],
    )
    .await;
}

#[tokio::test]
async fn a_version_guard_without_a_version_is_named() {
    refused(
        |tables, paid| done(paid.put_if_newer(&tables.payments, json!({ "id": "x" }), "seq")),
        |tables| vec!["\"seq\"".to_owned(), tables.payments.clone()],
    )
    .await;
    refused(
        |tables, paid| {
            let item = json!({ "id": "x", "seq": [1] });
            done(paid.put_if_newer(&tables.payments, item, "seq"))
        },
        |tables| vec!["\"seq\"".to_owned(), tables.payments.clone()],
    )
    .await;
}

#[tokio::test]
async fn a_result_after_the_alternative_and_an_alternative_that_is_wrong_are_found_at_once() {
    refused(
        |_, paid| done(paid.otherwise(Transaction::new())),
        |_| vec!["`returning` came after `otherwise`"],
    )
    .await;
    refused(
        |tables, paid| {
            let alternative = Transaction::new().put(&tables.payments, Answer::Unwritable);
            done(paid).otherwise(done(alternative))
        },
        |_| vec!["can't be serialised"],
    )
    .await;
}
