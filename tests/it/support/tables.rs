//! The tables of one test: made before it, and deleted after it where they would outlive it.

use std::sync::Mutex;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
};
use uuid::Uuid;

use super::server;

/// What the names of all tables begin with, so that what a test that was killed has left can be
/// found. CONTRIBUTING.md names it.
const PREFIX: &str = "lambda-idempotency-test-";

/// The tables that end with the test that made them.
#[derive(Default)]
pub struct OwnTables(Mutex<Vec<String>>);

impl OwnTables {
    /// Makes a table that is ready for use, and returns its name. Its key: these attributes, texts.
    pub async fn create(&self, client: &Client, what: &str, key: &[&str]) -> String {
        let table = Self::unique(what);
        self.add(client, &table, key).await;
        table
    }

    /// A name for a table that no other test has.
    pub fn unique(what: &str) -> String {
        format!("{PREFIX}{}-{what}", Uuid::new_v4().simple())
    }

    /// Makes a table of this name.
    pub async fn add(&self, client: &Client, table: &str, key: &[&str]) {
        self.0.lock().unwrap().push(table.to_owned());
        create(client, table, key).await;
        // An emulator's is ready at once, though the answer may not say so. DynamoDB takes some seconds.
        while !is_active(client, table).await {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

async fn is_active(client: &Client, table: &str) -> bool {
    let told = client.describe_table().table_name(table).send().await;
    let status = told.unwrap().table.and_then(|table| table.table_status);
    status == Some(TableStatus::Active)
}

async fn create(client: &Client, table: &str, key: &[&str]) {
    let types = [KeyType::Hash, KeyType::Range];
    let mut request = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest);
    for (name, key_type) in key.iter().zip(types) {
        request = request
            .attribute_definitions(
                AttributeDefinition::builder()
                    .attribute_name(*name)
                    .attribute_type(ScalarAttributeType::S)
                    .build()
                    .unwrap(),
            )
            .key_schema(
                KeySchemaElement::builder()
                    .attribute_name(*name)
                    .key_type(key_type)
                    .build()
                    .unwrap(),
            );
    }
    request.send().await.unwrap();
}

impl Drop for OwnTables {
    fn drop(&mut self) {
        let tables = std::mem::take(self.0.get_mut().unwrap());
        if server::is_embedded() || tables.is_empty() {
            return;
        }
        // A destructor can't wait in the test's runtime, which may be ending with it.
        let deleting = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = server::client(server::http()).await;
                for table in tables {
                    if let Err(error) = client.delete_table().table_name(&table).send().await {
                        eprintln!("the table {table} is left: {error:?}");
                    }
                }
            });
        });
        deleting.join().unwrap();
    }
}
