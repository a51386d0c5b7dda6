//! What the messages ask for, and the writes that come of it.

use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Put, Update};
use lambda_idempotency::{Transaction, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A message's body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The idempotency key.
    pub key: String,
    /// What the fingerprint is taken over.
    pub payload: String,
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// No condition.
    Count,
    /// Adds to an account.
    Deposit { account: String, amount: u64 },
    /// Takes from an account; if there is not enough, borrows from a bank that lends once; if it
    /// has lent, is declined.
    Withdraw { account: String, amount: u64 },
    /// Takes a seat, or is declined.
    Seat { seat: String },
    /// Replaces a profile by a newer version, or is stale.
    Profile { id: String, version: u64 },
    /// Fails until a gate is open.
    Gate { gate: String },
    /// Writes nothing.
    Nothing,
}

/// The tables' names.
#[derive(Clone, Debug)]
pub struct Tables {
    prefix: String,
}

impl Tables {
    pub fn new(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// How often the work of a key was applied.
    pub fn ledger(&self) -> String {
        self.named("ledger")
    }

    /// What of it was applied.
    pub fn entries(&self) -> String {
        self.named("entries")
    }

    pub fn accounts(&self) -> String {
        self.named("accounts")
    }

    pub fn loans(&self) -> String {
        self.named("loans")
    }

    pub fn seats(&self) -> String {
        self.named("seats")
    }

    pub fn profiles(&self) -> String {
        self.named("profiles")
    }

    pub fn gates(&self) -> String {
        self.named("gates")
    }

    pub fn all(&self) -> [String; 7] {
        [
            self.ledger(),
            self.entries(),
            self.accounts(),
            self.loans(),
            self.seats(),
            self.profiles(),
            self.gates(),
        ]
    }
}

impl Tables {
    /// Those whose key attributes a service is told.
    pub fn known_keys(&self, all: bool) -> Vec<String> {
        match all {
            true => self.all().into(),
            false => vec![self.entries()],
        }
    }
}

impl Order {
    /// The transactions in the order in which they are tried. Each names what it does in its entry
    /// and in its result, which also names the run of the handler.
    pub fn transaction(&self, tables: &Tables, run: u64) -> Transaction<String> {
        let bodies = self.bodies(tables);
        let last_first = bodies.into_iter().rev();
        last_first
            .map(|body| self.one_transaction(tables, run, body))
            .reduce(|alternative, transaction| transaction.otherwise(alternative))
            .unwrap()
    }

    /// The same without results.
    pub fn silent_transaction(&self, tables: &Tables, run: u64) -> Transaction {
        let bodies = self.bodies(tables);
        let last_first = bodies.into_iter().rev();
        let silent = last_first.map(|body| {
            let full = self.one_transaction(tables, run, body);
            let writes = full.writes().iter().cloned();
            writes.fold(Transaction::new(), Transaction::write)
        });
        silent
            .reduce(|alternative, transaction| transaction.otherwise(alternative))
            .unwrap()
    }

    fn one_transaction(
        &self,
        tables: &Tables,
        run: u64,
        (name, body): (&str, Transaction),
    ) -> Transaction<String> {
        let result = format!("{name} by run {run}");
        if self.work == Work::Nothing {
            return body.returning(result);
        }
        let entry = json!({
            "id": self.key, "payload": self.payload, "body": name, "result": result,
        });
        body.write(add(&tables.ledger(), &self.key, "count", 1))
            .put(tables.entries(), entry)
            .returning(result)
    }

    fn bodies(&self, tables: &Tables) -> Vec<(&'static str, Transaction)> {
        let new = Transaction::new;
        match &self.work {
            Work::Count => vec![("counted", new())],
            Work::Nothing => vec![("nothing", new())],
            Work::Deposit { account, amount } => {
                let deposit = add(&tables.accounts(), account, "balance", signed(*amount));
                vec![("deposited", new().write(deposit))]
            }
            Work::Withdraw { account, amount } => vec![
                (
                    "paid",
                    new().write(take(&tables.accounts(), account, *amount)),
                ),
                (
                    "lent",
                    new().write(put_if_absent(&tables.loans(), account, &self.key)),
                ),
                ("declined", new()),
            ],
            Work::Seat { seat } => vec![
                (
                    "seated",
                    new().write(put_if_absent(&tables.seats(), seat, &self.key)),
                ),
                ("declined", new()),
            ],
            Work::Profile { id, version } => {
                let profile = json!({ "id": id, "version": version, "of": self.key });
                let put = new().put_if_newer(tables.profiles(), profile, "version");
                vec![("saved", put)]
            }
            Work::Gate { gate } => {
                let check = ConditionCheck::builder()
                    .table_name(tables.gates())
                    .key("id", text(gate))
                    .condition_expression("attribute_exists(#id)")
                    .expression_attribute_names("#id", "id")
                    .build()
                    .unwrap();
                vec![("passed", new().write(check))]
            }
        }
    }
}

fn add(table: &str, id: &str, attribute: &str, amount: i64) -> Write {
    adding(table, id, attribute, amount).build().unwrap().into()
}

fn adding(table: &str, id: &str, attribute: &str, amount: i64) -> UpdateBuilder {
    Update::builder()
        .table_name(table)
        .key("id", text(id))
        .update_expression("ADD #attribute :amount")
        .expression_attribute_names("#attribute", attribute)
        .expression_attribute_values(":amount", AttributeValue::N(amount.to_string()))
}

fn take(table: &str, account: &str, amount: u64) -> Write {
    adding(table, account, "balance", -signed(amount))
        .condition_expression("#attribute >= :needed")
        .expression_attribute_values(":needed", AttributeValue::N(amount.to_string()))
        .build()
        .unwrap()
        .into()
}

fn put_if_absent(table: &str, id: &str, key: &str) -> Write {
    let put: PutBuilder = Put::builder()
        .table_name(table)
        .item("id", text(id))
        .item("of", text(key));
    put.condition_expression("attribute_not_exists(#id)")
        .expression_attribute_names("#id", "id")
        .build()
        .unwrap()
        .into()
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap()
}

pub fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}
