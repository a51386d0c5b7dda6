//! Configurations that can't work are refused when building, before any message is taken.

use std::time::Duration;

use lambda_idempotency::store::AttributeNames;
use lambda_idempotency::{DynamoDbStore, Idempotency, IdempotencyBuilder, Key, Retention};

use crate::support::Lab;

/// Refused, as a configuration error whose text has all of these in it.
#[track_caller]
fn refused(builder: IdempotencyBuilder, named: &[&str]) {
    let error = builder.build().unwrap_err();
    assert!(error.is_configuration(), "{error}");
    for name in named {
        assert!(error.to_string().contains(name), "{name:?} in {error}");
    }
}

#[tokio::test]
async fn a_consumer_has_to_be_named_and_its_name_to_be_usable() {
    let lab = Lab::new().await;
    refused(
        Idempotency::builder(lab.store()),
        &["no consumer", ".consumer("],
    );
    let long = "c".repeat(256);
    for (name, problem) in [
        ("", "is empty"),
        ("  ", "is empty"),
        ("pay#ments", "contains `#`"),
        (long.as_str(), "longer than 255 bytes"),
    ] {
        refused(lab.builder().consumer(name), &["consumer name", problem]);
    }
    assert!(lab.builder().consumer("c".repeat(255)).build().is_ok());
}

#[tokio::test]
async fn a_retention_that_is_too_short_or_in_other_units_is_refused() {
    let lab = Lab::new().await;
    refused(
        lab.builder().retention(Duration::from_secs(60)),
        &["60 s", "shorter", "960 s"],
    );
    refused(lab.builder().retention(Duration::ZERO), &["0 s", "shorter"]);
    let in_milliseconds = Duration::from_secs(28 * 24 * 60 * 60 * 1_000);
    refused(
        lab.builder().retention(in_milliseconds),
        &["10 years", "milliseconds"],
    );
    refused(
        lab.builder()
            .retention(Retention::hours(1))
            .lease_at_least(Duration::from_secs(2 * 60 * 60)),
        &["3600 s", "7200 s", "lease"],
    );
    for fine in [Retention::hours(1), Retention::days(3_650)] {
        assert!(lab.builder().retention(fine).build().is_ok());
    }
}

#[tokio::test]
async fn durations_in_which_nothing_can_be_done_are_refused() {
    let lab = Lab::new().await;
    let zero = Duration::ZERO;
    refused(
        lab.builder().default_time(zero),
        &["`default_time` is zero"],
    );
    refused(lab.builder().retry_for(zero), &["`retry_for` is zero"]);
    refused(
        lab.builder().commit_reserve(zero),
        &["`commit_reserve` is zero"],
    );
    refused(
        lab.builder().default_time(Duration::from_secs(3_600)),
        &["`default_time`", "16 minutes"],
    );
    for store in [
        lab.store().attempt_timeout(zero),
        lab.store().connect_timeout(zero),
    ] {
        refused(lab.builder_on(store), &["time-out", "zero"]);
    }
    refused(lab.builder_on(lab.store().attempts(0)), &["attempts(0)"]);
}

#[tokio::test]
async fn a_table_without_a_name_and_attributes_without_names_of_their_own_are_refused() {
    let lab = Lab::new().await;
    for empty in ["", " "] {
        let store = DynamoDbStore::new(lab.client.clone(), empty);
        refused(
            lab.builder_on(store),
            &["idempotency table", "empty", "environment variable"],
        );
    }
    let names = AttributeNames::default;
    for (names, named) in [
        (names().token("status"), "\"status\""),
        (names().id("data"), "\"data\""),
        (names().lease("expiration"), "\"expiration\""),
        (names().fingerprint(""), "is empty"),
    ] {
        refused(
            lab.builder_on(lab.store().attribute_names(names)),
            &["idempotency table", named],
        );
    }
    let same = lab.store().composite_key("id", "all", "id");
    refused(lab.builder_on(same), &["\"id\""]);
    let nowhere = lab.store().composite_key("pk", "", "sk");
    refused(lab.builder_on(nowhere), &["partition key is empty"]);
}

#[tokio::test]
async fn key_attributes_have_to_name_a_table_and_attributes() {
    let lab = Lab::new().await;
    for (table, names) in [
        ("", vec!["id"]),
        ("payments", vec![]),
        ("payments", vec![""]),
    ] {
        refused(
            lab.builder().key_attributes(table, names),
            &["key_attributes", table],
        );
    }
}

#[test]
fn a_pointer_that_is_none_is_refused_with_the_right_one() {
    for (wrong, told) in [
        ("id", "\"/id\""),
        ("$.id", "start with `/`"),
        ("/a~b", "`~0`"),
    ] {
        let error = Key::body(wrong).unwrap_err();
        assert!(error.is_configuration());
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn a_fingerprint_s_pointer_is_checked_when_building_too() {
    let lab = Lab::new().await;
    let service = lab
        .idempotency()
        .sqs(crate::support::Bank(lab.tables.clone()));
    let error = service.fingerprint_at("amount").unwrap_err();
    assert!(error.is_configuration());
    assert!(error.to_string().contains("\"/amount\""), "{error}");
}
