//! Tables in a store.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

/// Creates a table with these key attributes, which are strings: a partition key, and a sort key
/// where there are two.
pub async fn create_table(client: &Client, table: &str, key: &[&str]) {
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
