//! The check at the end: reads the store's file, and trusts nothing else.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow};
use dynoxide::Database;
use serde_json::{Value, json};

use crate::payments::Payment;
use crate::store::{ACCOUNTS, IDEMPOTENCY, PAYMENTS};

/// The tables, as JSON items by their id.
pub(crate) struct Ledger {
    payments: BTreeMap<String, Value>,
    accounts: BTreeMap<String, Value>,
    records: BTreeMap<String, Value>,
}

/// What the ledger shows of the payments that were sent.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// In the balance once, and in the table of payments.
    pub(crate) applied: usize,
    /// Not in the balance, or not in the table of payments.
    pub(crate) lost: Vec<Payment>,
    /// In the balance more than once.
    pub(crate) doubled: Vec<Payment>,
    /// Balances that are not what their payments add up to, and accounts or payments that nobody sent.
    pub(crate) wrong: Vec<String>,
    /// Records that are still in progress. No harm, but worth knowing.
    pub(crate) in_progress: usize,
}

impl Ledger {
    pub(crate) fn read(database: &Database) -> anyhow::Result<Self> {
        Ok(Self {
            payments: scan(database, PAYMENTS)?,
            accounts: scan(database, ACCOUNTS)?,
            records: scan(database, IDEMPOTENCY)?,
        })
    }

    pub(crate) fn check(&self, sent: impl Iterator<Item = Payment>) -> anyhow::Result<Findings> {
        let mut findings = Findings::default();
        let mut expected_balances = BTreeMap::new();
        let mut known = 0;
        for payment in sent {
            let balance = self.balance(&payment.account())?;
            *expected_balances.entry(payment.account()).or_insert(0) += payment.amount();
            let is_recorded = match self.payments.get(&payment.id()) {
                None => false,
                Some(item) => {
                    known += 1;
                    item["account"]["S"] == payment.account()
                        && item["amount"]["N"] == payment.amount().to_string()
                }
            };
            match payment.times_in(balance) {
                1 if is_recorded => findings.applied += 1,
                0 | 1 => findings.lost.push(payment),
                _ => findings.doubled.push(payment),
            }
        }
        for (account, expected) in &expected_balances {
            let balance = self.balance(account)?;
            if balance != *expected {
                (findings.wrong).push(format!("{account}: {balance} instead of {expected}"));
            }
        }
        for account in self.accounts.keys() {
            if !expected_balances.contains_key(account) {
                findings.wrong.push(format!("{account}: nobody paid"));
            }
        }
        if known != self.payments.len() {
            let more = self.payments.len() - known;
            (findings.wrong).push(format!("{more} payments that nobody sent"));
        }
        findings.in_progress = (self.records.values())
            .filter(|record| record["status"]["S"] != "COMPLETED")
            .count();
        Ok(findings)
    }

    fn balance(&self, account: &str) -> anyhow::Result<u128> {
        match self.accounts.get(account) {
            None => Ok(0),
            Some(item) => item["balance"]["N"]
                .as_str()
                .and_then(|number| number.parse().ok())
                .with_context(|| format!("{account} has no balance that can be read")),
        }
    }
}

fn scan(database: &Database, table: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut items = BTreeMap::new();
    let mut start = Value::Null;
    loop {
        let mut request = json!({ "TableName": table, "ConsistentRead": true });
        if !start.is_null() {
            request["ExclusiveStartKey"] = start;
        }
        let response = database
            .scan(serde_json::from_value(request)?)
            .map_err(|error| anyhow!("can't read the table {table}: {error}"))?;
        let response = serde_json::to_value(response)?;
        for item in response["Items"].as_array().into_iter().flatten() {
            let id = item["id"]["S"].as_str().context("an item has no id")?;
            items.insert(id.to_owned(), item.clone());
        }
        match response.get("LastEvaluatedKey") {
            None | Some(Value::Null) => return Ok(items),
            Some(last) => start = last.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(payments: &[Payment], balance: u128) -> Ledger {
        let account = payments[0].account();
        Ledger {
            payments: (payments.iter())
                .map(|payment| {
                    let amount = payment.amount().to_string();
                    let item = json!({ "account": { "S": account }, "amount": { "N": amount } });
                    (payment.id(), item)
                })
                .collect(),
            accounts: BTreeMap::from([(
                account.clone(),
                json!({ "balance": { "N": balance.to_string() } }),
            )]),
            records: BTreeMap::new(),
        }
    }

    fn sent() -> impl Iterator<Item = Payment> {
        (0..3).map(Payment)
    }

    #[test]
    fn a_ledger_that_has_each_payment_once_is_right() -> anyhow::Result<()> {
        let all: Vec<_> = sent().collect();
        let findings = ledger(&all, 111).check(sent())?;
        assert_eq!(findings.applied, 3);
        assert!(findings.lost.is_empty() && findings.doubled.is_empty());
        assert!(findings.wrong.is_empty());
        Ok(())
    }

    #[test]
    fn what_is_missing_is_lost_and_what_is_there_twice_is_doubled() -> anyhow::Result<()> {
        let all: Vec<_> = sent().collect();
        let findings = ledger(&all[..2], 12).check(sent())?;
        assert_eq!(findings.applied, 1);
        assert_eq!(findings.lost, [Payment(2)]);
        assert_eq!(findings.doubled, [Payment(0)]);
        assert_eq!(findings.wrong.len(), 1);
        Ok(())
    }

    #[test]
    fn a_payment_without_its_amount_and_an_amount_without_its_payment_are_lost()
    -> anyhow::Result<()> {
        let all: Vec<_> = sent().collect();
        assert_eq!(ledger(&all, 101).check(sent())?.lost, [Payment(1)]);
        assert_eq!(ledger(&all[..2], 111).check(sent())?.lost, [Payment(2)]);
        Ok(())
    }

    #[test]
    fn what_nobody_sent_is_wrong() -> anyhow::Result<()> {
        let all: Vec<_> = (0..4).map(Payment).collect();
        let findings = ledger(&all, 1_111).check(sent())?;
        assert_eq!(findings.wrong.len(), 2, "{findings:?}");
        Ok(())
    }
}
