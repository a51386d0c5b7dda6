//! The tables of the sample function.

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::client::Waiters as _;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

pub(crate) const IDEMPOTENCY: &str = "idempotency";
pub(crate) const PAYMENTS: &str = "payments";
pub(crate) const ACCOUNTS: &str = "accounts";

/// DynamoDB itself takes some seconds for a new table.
const LONGEST_CREATION: Duration = Duration::from_secs(60);

/// Creates the tables that are not there yet.
pub(crate) async fn create(client: &Client) -> anyhow::Result<()> {
    for table in [IDEMPOTENCY, PAYMENTS, ACCOUNTS] {
        create_table(client, table)
            .await
            .with_context(|| format!("can't create the table {table}"))?;
    }
    Ok(())
}

async fn create_table(client: &Client, table: &str) -> anyhow::Result<()> {
    let id = AttributeDefinition::builder()
        .attribute_name("id")
        .attribute_type(ScalarAttributeType::S)
        .build()?;
    let partition_key = KeySchemaElement::builder()
        .attribute_name("id")
        .key_type(KeyType::Hash)
        .build()?;
    let created = client
        .create_table()
        .table_name(table)
        .attribute_definitions(id)
        .key_schema(partition_key)
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await;
    if let Err(error) = created {
        let is_there = error
            .as_service_error()
            .is_some_and(|error| error.is_resource_in_use_exception());
        if !is_there {
            return Err(error.into());
        }
    }
    client
        .wait_until_table_exists()
        .table_name(table)
        .wait(LONGEST_CREATION)
        .await?;
    Ok(())
}
