//! What a function may do: exactly what it does.

use std::collections::BTreeSet;

use lambda_idempotency::DynamoDbStore;
use serde_json::Value;

use crate::template::{Resource, Template};

/// What the library calls on the idempotency table. `TransactWriteItems` is authorised by the actions
/// of the writes in it.
pub const LIBRARY_ACTIONS: [&str; 4] = DynamoDbStore::ACTIONS;

/// What Lambda does with the function's role to read a queue.
pub const QUEUE_ACTIONS: [&str; 3] = [
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
];

/// What the sample's handler writes, by the variable that names the table.
const SAMPLE_ACTIONS: [(&str, &str); 2] = [
    ("PAYMENTS_TABLE", "dynamodb:PutItem"),
    ("ACCOUNTS_TABLE", "dynamodb:UpdateItem"),
];

/// Services whose actions have no resource to name.
const WITHOUT_RESOURCES: [&str; 1] = ["xray:"];

pub(crate) fn check(
    template: &Template,
    function: Resource<'_>,
    queue: Resource<'_>,
    found: &mut Vec<String>,
) {
    let id = function.id;
    let Some(statements) = statements(template, function) else {
        found.push(format!(
            "{id}: its Role is not a role of this template, so it can't be checked"
        ));
        return;
    };
    for statement in &statements {
        for action in actions(statement) {
            if action.contains('*') {
                found.push(format!("{id} may do {action}: name the actions"));
            }
            let needs_a_resource = !WITHOUT_RESOURCES.iter().any(|s| action.starts_with(s));
            if statement["Resource"] == "*" && needs_a_resource {
                found.push(format!(
                    "{id} may do {action} on everything: name the resource"
                ));
            }
        }
    }
    compare(id, &statements, queue.id, "sqs:", &QUEUE_ACTIONS, found);
    let table = |variable| template.variable(function, variable)?["Ref"].as_str();
    if let Some(records) = table("IDEMPOTENCY_TABLE") {
        compare(
            id,
            &statements,
            records,
            "dynamodb:",
            &LIBRARY_ACTIONS,
            found,
        );
    }
    for (variable, action) in SAMPLE_ACTIONS {
        if let Some(table) = table(variable) {
            compare(id, &statements, table, "dynamodb:", &[action], found);
        }
    }
}

/// Says which actions on a resource are missing, and which are not used.
fn compare(
    function: &str,
    statements: &[&Value],
    resource: &str,
    service: &str,
    needed: &[&str],
    found: &mut Vec<String>,
) {
    let needed: BTreeSet<&str> = needed.iter().copied().collect();
    let allowed: BTreeSet<&str> = statements
        .iter()
        .filter(|statement| is_about(&statement["Resource"], resource))
        .flat_map(|statement| actions(statement))
        .filter(|action| action.starts_with(service))
        .collect();
    for missing in needed.difference(&allowed) {
        found.push(format!(
            "{function} may not do {missing} on {resource}, and has to"
        ));
    }
    for unused in allowed.difference(&needed) {
        found.push(format!(
            "{function} may do {unused} on {resource}, and never does"
        ));
    }
}

fn is_about(resources: &Value, id: &str) -> bool {
    match resources {
        Value::Array(several) => several.iter().any(|one| is_about(one, id)),
        one => one["Fn::GetAtt"][0] == id,
    }
}

/// Every statement of the function's role that allows something, its own and its managed policies'.
fn statements<'a>(template: &'a Template, function: Resource<'a>) -> Option<Vec<&'a Value>> {
    let role = template.function_property(function, "Role")?;
    let role = template.pointed_at("AWS::IAM::Role", role)?.properties;
    let own = list(&role["Policies"]).map(|policy| &policy["PolicyDocument"]);
    let managed = list(&role["ManagedPolicyArns"])
        .filter_map(|policy| template.pointed_at("AWS::IAM::ManagedPolicy", policy))
        .map(|policy| &policy.properties["PolicyDocument"]);
    Some(
        own.chain(managed)
            .flat_map(|document| list(&document["Statement"]))
            .filter(|statement| statement["Effect"] == "Allow")
            .collect(),
    )
}

fn actions(statement: &Value) -> impl Iterator<Item = &str> {
    list(&statement["Action"]).filter_map(Value::as_str)
}

/// One or several: IAM takes both.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Null => [].iter(),
        Value::Array(several) => several.iter(),
        one => std::slice::from_ref(one).iter(),
    }
}
