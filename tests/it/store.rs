//! `DynamoDbStore` in other shapes of tables, and against endpoints that are not there.

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, ConfigBag, Credentials, Intercept, ProvideCredentials, Region,
};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::types::AttributeValue;
use lambda_idempotency::store::AttributeNames;
use lambda_idempotency::{Done, DynamoDbStore};

use crate::support::{KEY, Lab, text};

#[tokio::test]
async fn attributes_can_have_other_names_even_reserved_ones() {
    let lab = Lab::new().await;
    let names = AttributeNames::default()
        .status("state")
        .expiration("ttl")
        .lease("order")
        .data("value")
        .fingerprint("hash")
        .token("token");
    let idempotency = lab
        .builder_on(lab.store().attribute_names(names))
        .build()
        .unwrap();
    let paid = lab.pay_for(&idempotency, &1).await.unwrap();
    assert_eq!(paid, Done::Completed("paid".to_owned()));
    let record = lab.record(KEY).await.unwrap();
    let mut names: Vec<_> = record.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["hash", "id", "state", "token", "ttl", "value"]);
    let again = lab.pay_for(&idempotency, &1).await.unwrap();
    assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
    assert!(
        lab.pay_for(&idempotency, &2)
            .await
            .unwrap_err()
            .is_payload_mismatch()
    );
    let failed = lab
        .run_under(&idempotency, "other", async || Err("no".into()))
        .await;
    assert!(failed.unwrap_err().is_handler());
    assert_eq!(lab.record("other").await, None);
}

#[tokio::test]
async fn a_table_with_a_composite_key_keeps_records_under_the_sort_key() {
    let lab = Lab::new().await;
    let table = lab.create_table("composite", &["pk", "sk"]).await;
    let store = DynamoDbStore::new(lab.client.clone(), &table)
        .composite_key("pk", "done", "sk")
        .attribute_names(AttributeNames::default().expiration("ttl"));
    let idempotency = lab.builder_on(store).build().unwrap();
    let paid = lab.pay(&idempotency).await.unwrap();
    assert_eq!(paid, Done::Completed("paid".to_owned()));
    let again = lab.pay(&idempotency).await.unwrap();
    assert_eq!(again, Done::Duplicate(Some("paid".to_owned())));
    let failed = lab
        .run_under(&idempotency, "other", async || Err("no".into()))
        .await;
    assert!(failed.unwrap_err().is_handler());
    let items = lab.items(&table).await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["pk"], text("done"));
    assert_eq!(items[0]["sk"], AttributeValue::S("tests#k".into()));
}

#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("there are none")))
    }
}

/// A payment at an endpoint of its own, with these credentials.
async fn pay_at(
    lab: &Lab,
    endpoint: &str,
    credentials: impl ProvideCredentials + 'static,
) -> lambda_idempotency::Error {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .endpoint_url(endpoint)
        .credentials_provider(credentials)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let store = DynamoDbStore::new(Client::from_conf(config), "records").attempts(1);
    let idempotency = lab.builder_on(store).build().unwrap();
    lab.pay(&idempotency).await.unwrap_err()
}

#[tokio::test]
async fn without_credentials_or_with_nobody_listening_it_is_said_that_nothing_was_sent() {
    // Bound, and never listening.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", socket.local_addr().unwrap());
    drop(socket);
    let somebody = Credentials::new("test", "test", None, None, "tests");
    let lab = Lab::new().await;
    for error in [
        pay_at(&lab, &endpoint, NoCredentials).await,
        pay_at(&lab, &endpoint, somebody).await,
    ] {
        assert!(error.is_store(), "{error:?}");
        assert!(
            format!("{error:#}").contains("it was not sent"),
            "{error:#}"
        );
    }
}

/// Refuses every request before it is written.
#[derive(Debug)]
struct RefusesAll;

impl Intercept for RefusesAll {
    fn name(&self) -> &'static str {
        "RefusesAll"
    }

    fn read_before_execution(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        Err("not today".into())
    }
}

#[tokio::test]
async fn a_request_that_can_not_be_made_is_not_tried_again() {
    let lab = Lab::new().await;
    let config = lab.client.config().to_builder().interceptor(RefusesAll);
    let client = Client::from_conf(config.build());
    let store = DynamoDbStore::new(client, &lab.tables.records);
    let idempotency = lab.builder_on(store).build().unwrap();
    let told = format!("{:#}", lab.pay(&idempotency).await.unwrap_err());
    assert!(told.contains("it was not sent"), "{told}");
    assert!(told.contains("not today"), "{told}");
    // What takes the key, and what settles it.
    assert_eq!(lab.take_report().requests, 2);
}

#[tokio::test]
async fn an_error_of_the_sdk_that_repeats_the_request_is_told_without_it() {
    let somebody = Credentials::new("test", "test", None, None, "tests");
    let error = pay_at(&Lab::new().await, "nonsense", somebody).await;
    let told = format!("{error:#}");
    assert!(told.contains("endpoint must contain scheme"), "{told}");
    assert!(
        !told.contains("tests#k") && !told.contains("TableName"),
        "{told}"
    );
}
