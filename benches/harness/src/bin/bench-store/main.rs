//! The store of the benchmark: an embedded DynamoDB in memory behind a proxy that counts requests
//! and delays them. Both on 127.0.0.1; the endpoint is the first line of the output.
//!
//! Commands come a line each on standard input, and each is answered with a line of JSON:
//!
//! - `latency 5`: every request from now on is delayed by 5 ms
//! - `take`: the requests since the last time, by operation
//! - `reset`: empties the tables
//! - `rows`: what is in them

mod proxy;

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use bench_harness::work::{ACCOUNTS, RECORDS};
use proxy::Proxy;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let database = dynoxide::Database::memory().map_err(|error| anyhow!("{error}"))?;
    let store = TcpListener::bind("127.0.0.1:0").await?;
    let address = store.local_addr()?;
    tokio::spawn(dynoxide::server::serve_with_shutdown(
        store,
        database,
        std::future::pending(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let proxy = Proxy::default();
    tokio::spawn(proxy.clone().serve(listener, address));
    let client = client(&format!("http://{address}"));
    create_tables(&client).await?;
    println!("{endpoint}");
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(command) = commands.next_line().await? {
        println!("{}", obey(&command, &proxy, &client).await?);
    }
    Ok(())
}

async fn obey(command: &str, proxy: &Proxy, client: &Client) -> anyhow::Result<Value> {
    Ok(match command.split_once(' ').unwrap_or((command, "")) {
        ("latency", millis) => {
            proxy.delay(Duration::from_secs_f64(millis.parse::<f64>()? / 1000.0));
            json!(null)
        }
        ("take", _) => json!(proxy.take()),
        ("reset", _) => {
            for table in [RECORDS, ACCOUNTS] {
                client.delete_table().table_name(table).send().await?;
            }
            create_tables(client).await?;
            json!(null)
        }
        ("rows", _) => rows(client).await?,
        (other, _) => return Err(anyhow!("{other:?} is no command")),
    })
}

/// How many records there are by status, how many accounts, and what is in those.
async fn rows(client: &Client) -> anyhow::Result<Value> {
    let mut records = HashMap::<String, u64>::new();
    for record in scan(client, RECORDS).await? {
        let status = record.get("status").and_then(|status| status.as_s().ok());
        let status = status.context("a record without a status")?;
        *records.entry(status.clone()).or_default() += 1;
    }
    let accounts = scan(client, ACCOUNTS).await?;
    let mut balance = 0;
    for account in &accounts {
        let amount = account.get("balance").and_then(|amount| amount.as_n().ok());
        balance += amount
            .context("an account without a balance")?
            .parse::<u64>()?;
    }
    Ok(json!({ "records": records, "accounts": accounts.len(), "balance": balance }))
}

async fn scan(
    client: &Client,
    table: &str,
) -> anyhow::Result<Vec<HashMap<String, AttributeValue>>> {
    let pages = client
        .scan()
        .table_name(table)
        .into_paginator()
        .items()
        .send();
    Ok(pages.try_collect().await?)
}

async fn create_tables(client: &Client) -> anyhow::Result<()> {
    for table in [RECORDS, ACCOUNTS] {
        let id = AttributeDefinition::builder()
            .attribute_name("id")
            .attribute_type(ScalarAttributeType::S)
            .build()?;
        let key = KeySchemaElement::builder()
            .attribute_name("id")
            .key_type(KeyType::Hash)
            .build()?;
        client
            .create_table()
            .table_name(table)
            .attribute_definitions(id)
            .key_schema(key)
            .billing_mode(BillingMode::PayPerRequest)
            .send()
            .await?;
    }
    Ok(())
}

fn client(endpoint: &str) -> Client {
    let configuration = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("bench", "bench", None, None, "bench"))
        .build();
    Client::from_conf(configuration)
}
