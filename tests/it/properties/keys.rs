//! Keys: distinct ones stay distinct, and every one fits.

use std::collections::BTreeSet;

use lambda_idempotency::{Delivery, HandlerError, Key, Message};
use proptest::prelude::*;

use super::{Yes, builder, check};
use crate::support::{Record, batch, context};

/// Text that is likely to run into its neighbours.
fn tricky() -> impl Strategy<Value = String> {
    prop_oneof!["[a#%23 ]{1,4}", "\\PC{1,8}"]
        .prop_filter("blank is no key", |text| !text.trim().is_empty())
}

/// The record ids that one message comes to by each of these keys.
async fn record_ids(keys: impl IntoIterator<Item = Key>) -> Vec<String> {
    let store = Yes::default();
    let (builder, deadline) = builder(&store);
    let idempotency = builder.build().unwrap();
    for key in keys {
        let service = idempotency
            .sqs_with(
                |_: &Delivery| Ok(()),
                |_: Message<()>| async { Ok::<(), HandlerError>(()) },
            )
            .key(key);
        let one = batch([Record::new("m-1", "")]);
        let response = service.process(one, &context(deadline)).await.unwrap();
        assert!(response.batch_item_failures.is_empty());
    }
    let claims = store.take_claims();
    claims.into_iter().map(|claim| claim.record_id).collect()
}

fn parts(texts: &[String]) -> Key {
    Key::parts(
        texts
            .iter()
            .cloned()
            .map(|text| Key::from_fn(move |_: &Delivery| text.clone())),
    )
}

#[test]
fn two_lists_of_parts_are_one_key_only_if_they_are_the_same_list() {
    let lists = || prop::collection::vec(tricky(), 1..4);
    check(
        200,
        &(lists(), lists()),
        async {},
        |_, (one, other)| async move {
            let ids = record_ids([parts(&one), parts(&other)]).await;
            prop_assert_eq!(ids[0] == ids[1], one == other, "{:?} {:?}", one, other);
            Ok(())
        },
    );
}

#[test]
fn parts_that_are_cut_elsewhere_are_another_key() {
    let cuts = (tricky(), tricky(), tricky());
    check(100, &cuts, async {}, |_, (a, b, c)| async move {
        let lists = [
            vec![a.clone(), b.clone(), c.clone()],
            vec![format!("{a}#{b}"), c.clone()],
            vec![a.clone(), format!("{b}#{c}")],
            vec![format!("{a}{b}"), c.clone()],
            vec![a.clone(), format!("{b}{c}")],
        ];
        let distinct_lists: BTreeSet<_> = lists.iter().cloned().collect();
        let ids = record_ids(lists.iter().map(|list| parts(list))).await;
        let distinct_ids: BTreeSet<_> = ids.into_iter().collect();
        prop_assert_eq!(distinct_ids.len(), distinct_lists.len());
        Ok(())
    });
}

/// Keys of all lengths around the limits, of one byte and of four a character.
fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{1,40}",
        (1_usize..1_100).prop_map(|length| "k".repeat(length)),
        (1_usize..400).prop_map(|length| "\u{1F980}".repeat(length)),
        "sha256:[0-9a-f]{64}",
        "sha256:\\PC{0,8}",
        Just("x".repeat(5_000)),
    ]
    .prop_filter("blank is no key", |text| !text.trim().is_empty())
}

#[test]
fn every_record_id_fits_begins_with_the_consumer_and_is_another_for_another_key() {
    let strategy = (any_key(), any_key());
    check(100, &strategy, async {}, |_, (one, other)| async move {
        let key = |text: &str| {
            let text = text.to_owned();
            Key::from_fn(move |_: &Delivery| text.clone())
        };
        let ids = record_ids([key(&one), key(&other)]).await;
        prop_assert_eq!(ids[0] == ids[1], one == other);
        // The text after the consumer's name, sent as a key, is the same key or another record.
        let stored = ids[0].strip_prefix("tests#").unwrap();
        let forged = record_ids([key(stored)]).await;
        prop_assert_eq!(forged[0] == ids[0], stored == one);
        for id in ids {
            prop_assert!(id.len() <= 1_024, "{}", id.len());
        }
        Ok(())
    });
}

#[test]
fn two_consumers_never_share_a_record() {
    let strategy = ("[^#]{1,8}", "[^#]{1,8}", any_key(), any_key());
    check(
        200,
        &strategy,
        async {},
        |_, (one, other, key, another)| async move {
            if one.trim().is_empty() || other.trim().is_empty() || one == other {
                return Ok(());
            }
            let store = Yes::default();
            for (consumer, key) in [(one, key), (other, another)] {
                let (builder, deadline) = builder(&store);
                let idempotency = builder.consumer(consumer).build().unwrap();
                let done = idempotency.run(&key, &(), deadline, async |_| Ok(()));
                prop_assert!(done.await.is_ok());
            }
            let claims = store.take_claims();
            prop_assert_ne!(&claims[0].record_id, &claims[1].record_id);
            Ok(())
        },
    );
}
