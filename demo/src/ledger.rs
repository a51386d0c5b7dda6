//! What the payments have come to.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::tables::{ACCOUNTS, PAYMENTS};

/// The business tables, read when everything is done. Amounts are in cents.
pub(crate) struct Ledger {
    pub(crate) accounts: BTreeMap<String, i128>,
    pub(crate) payments: u64,
    /// The sum of all payments: that of the balances too, if each was added exactly once.
    pub(crate) paid: i128,
}

type Item = HashMap<String, AttributeValue>;

impl Ledger {
    pub(crate) async fn read(client: &Client) -> anyhow::Result<Self> {
        let mut ledger = Self {
            accounts: BTreeMap::new(),
            payments: 0,
            paid: 0,
        };
        for account in scan(client, ACCOUNTS).await? {
            let balance = cents(&account, "balance").context("an account has no balance")?;
            ledger.accounts.insert(id(&account)?, balance);
        }
        for payment in scan(client, PAYMENTS).await? {
            ledger.payments += 1;
            ledger.paid += cents(&payment, "amount").context("a payment has no amount")?;
        }
        Ok(ledger)
    }

    /// By how much the balances exceed the payments: what was added more than once.
    pub(crate) fn excess(&self) -> i128 {
        self.accounts.values().sum::<i128>() - self.paid
    }
}

async fn scan(client: &Client, table: &str) -> anyhow::Result<Vec<Item>> {
    client
        .scan()
        .table_name(table)
        .consistent_read(true)
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await
        .with_context(|| format!("can't read the table {table}"))
}

fn id(item: &Item) -> anyhow::Result<String> {
    let id = item.get("id").and_then(|id| id.as_s().ok());
    id.cloned().context("an item has no id")
}

fn cents(item: &Item, attribute: &str) -> Option<i128> {
    item.get(attribute)?.as_n().ok()?.parse().ok()
}
