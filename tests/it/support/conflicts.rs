//! Conflicts as DynamoDB has them, which no emulator shows: a write on an item that is in a
//! transaction under way is refused, and so is a transaction on such an item.
//!
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-conflict-handling>

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// A table, and a key in it.
type Item = (String, String);

/// The items that are in transactions under way.
#[derive(Clone, Default)]
pub struct Conflicts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    are_shown: bool,
    held: HashSet<Item>,
    refused: u32,
}

/// A transaction under way, if it is one.
pub struct UnderWay {
    conflicts: Conflicts,
    items: Vec<Item>,
}

impl Conflicts {
    pub fn show(&self) {
        self.0.lock().unwrap().are_shown = true;
    }

    /// How many requests were refused.
    pub fn refused(&self) -> u32 {
        self.0.lock().unwrap().refused
    }

    /// Lets a request begin, or says how it is refused.
    pub fn begin(&self, operation: &str, body: &Value) -> Result<UnderWay, Value> {
        let mut state = self.0.lock().unwrap();
        let mut under_way = UnderWay {
            conflicts: self.clone(),
            items: Vec::new(),
        };
        if !state.are_shown {
            return Ok(under_way);
        }
        match operation {
            "TransactWriteItems" => {
                let actions = body["TransactItems"].as_array().unwrap();
                let items: Vec<Item> = actions
                    .iter()
                    .map(|action| item(action.as_object().unwrap().values().next().unwrap()))
                    .collect();
                if items.iter().any(|item| state.held.contains(item)) {
                    state.refused += 1;
                    let reason = |item| match state.held.contains(item) {
                        true => json!({ "Code": "TransactionConflict" }),
                        false => json!({ "Code": "None" }),
                    };
                    let reasons: Vec<Value> = items.iter().map(reason).collect();
                    let mut refusal = error("TransactionCanceledException");
                    refusal["CancellationReasons"] = reasons.into();
                    return Err(refusal);
                }
                state.held.extend(items.iter().cloned());
                under_way.items = items;
            }
            "PutItem" | "UpdateItem" | "DeleteItem" if state.held.contains(&item(body)) => {
                state.refused += 1;
                return Err(error("TransactionConflictException"));
            }
            _ => {}
        }
        Ok(under_way)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            let mut state = self.conflicts.0.lock().unwrap();
            for item in &self.items {
                state.held.remove(item);
            }
        }
    }
}

/// What a write is on. The tables of a race have the key `id`.
fn item(write: &Value) -> Item {
    let table = write["TableName"].as_str().unwrap().to_owned();
    let attributes = write.get("Key").or_else(|| write.get("Item")).unwrap();
    let key = attributes["id"]["S"].as_str().unwrap().to_owned();
    (table, key)
}

fn error(code: &str) -> Value {
    super::wire::error(code)
}

#[test]
fn a_transaction_and_a_write_meet_on_an_item_until_the_transaction_ends() {
    let conflicts = Conflicts::default();
    let put = |table: &str| json!({ "TableName": table, "Item": { "id": { "S": "1" } } });
    let both = json!({ "TransactItems": [{ "Put": put("a") }, { "Put": put("b") }] });
    assert!(conflicts.begin("TransactWriteItems", &both).is_ok());
    conflicts.show();
    let under_way = conflicts.begin("TransactWriteItems", &both).ok().unwrap();
    let other = json!({ "TransactItems": [{ "Put": put("c") }, { "Put": put("b") }] });
    let refusal = conflicts.begin("TransactWriteItems", &other).err().unwrap();
    let reasons = &refusal["CancellationReasons"];
    assert_eq!(reasons[0]["Code"], "None");
    assert_eq!(reasons[1]["Code"], "TransactionConflict");
    let refusal = conflicts.begin("PutItem", &put("a")).err().unwrap();
    let code = refusal["__type"].as_str().unwrap();
    assert!(code.ends_with("#TransactionConflictException"), "{code}");
    assert!(conflicts.begin("PutItem", &put("c")).is_ok());
    drop(under_way);
    assert!(conflicts.begin("PutItem", &put("a")).is_ok());
    assert!(conflicts.begin("TransactWriteItems", &other).is_ok());
    assert_eq!(conflicts.refused(), 2);
}
