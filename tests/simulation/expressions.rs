//! The few expressions of DynamoDB that the orders' writes use. Another one is a mistake in the
//! simulation, and panics.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

pub type Item = HashMap<String, AttributeValue>;

/// What the placeholders of an expression stand for.
pub struct Placeholders<'a> {
    pub names: Option<&'a HashMap<String, String>>,
    pub values: Option<&'a Item>,
}

impl Placeholders<'_> {
    fn name(&self, placeholder: &str) -> &str {
        &self.names.unwrap()[placeholder]
    }

    fn value(&self, placeholder: &str) -> &AttributeValue {
        &self.values.unwrap()[placeholder]
    }

    /// Whether the item, if there is one, fulfils the condition.
    pub fn holds(&self, condition: &str, item: Option<&Item>) -> bool {
        condition
            .split(" OR ")
            .any(|term| self.term_holds(term, item))
    }

    fn term_holds(&self, term: &str, item: Option<&Item>) -> bool {
        let stored = |name: &str| item.and_then(|item| item.get(self.name(name)));
        let argument = |function: &str| term.strip_prefix(function)?.strip_suffix(')');
        if let Some(name) = argument("attribute_not_exists(") {
            return stored(name).is_none();
        }
        if let Some(name) = argument("attribute_exists(") {
            return stored(name).is_some();
        }
        let words: Vec<&str> = term.split(' ').collect();
        let [name, operator, value] = words[..] else {
            panic!("the simulation does not know the condition {term:?}");
        };
        // A missing attribute compares with nothing.
        let Some(stored) = stored(name) else {
            return false;
        };
        let (stored, value) = (number(stored), number(self.value(value)));
        match operator {
            "<" => stored < value,
            ">=" => stored >= value,
            _ => panic!("the simulation does not know the condition {term:?}"),
        }
    }

    /// Changes the item as the update says.
    pub fn update(&self, update: &str, item: &mut Item) {
        let words: Vec<&str> = update.split(' ').collect();
        let ["ADD", name, value] = words[..] else {
            panic!("the simulation does not know the update {update:?}");
        };
        let name = self.name(name);
        let sum = item.get(name).map_or(0, number) + number(self.value(value));
        item.insert(name.to_owned(), AttributeValue::N(sum.to_string()));
    }
}

pub fn number(value: &AttributeValue) -> i64 {
    value.as_n().unwrap().parse().unwrap()
}
