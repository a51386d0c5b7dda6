//! Fingerprints: the meaning of a payload counts, its spelling does not.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lambda_idempotency::store::Fingerprint;
use lambda_idempotency::{Delivery, HandlerError, Message};
use proptest::prelude::*;

use super::{Yes, builder, check};
use crate::support::{Record, batch, context};

/// JSON by its meaning: equal values are equal here, and nothing else is.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    /// Times ten to the power; normalised, so that one number has one form.
    Number(i64, i8),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

fn number(mut digits: i64, mut power: i8) -> Json {
    if digits == 0 {
        return Json::Number(0, 0);
    }
    while digits % 10 == 0 {
        digits /= 10;
        power += 1;
    }
    Json::Number(digits, power)
}

/// Few values, so that two of them are often equal.
fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        (-20_i64..20, -2_i8..3).prop_map(|(digits, power)| number(digits, power)),
        any::<i64>().prop_map(|digits| number(digits, 0)),
        "[ab1\"\\\\ü\u{1F980}]{0,3}".prop_map(Json::Text),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
            prop::collection::btree_map("[ab\"ü]{0,2}", inner, 0..3).prop_map(Json::Object),
        ]
    })
}

fn choose(choices: &mut impl Iterator<Item = u8>, of: u8) -> u8 {
    choices.next().unwrap_or_default() % of
}

/// One of the ways to write it, drawn from these bytes.
fn spell(json: &Json, choices: &mut impl Iterator<Item = u8>, text: &mut String) {
    let space = ["", " ", "\n\t", "\r\n  "][usize::from(choose(choices, 4))];
    text.push_str(space);
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(is) => text.push_str(if *is { "true" } else { "false" }),
        Json::Number(digits, power) => {
            let spellings = match (digits, power) {
                (0, _) => ["0", "-0", "0.00", "0e7"].map(str::to_owned),
                (digits, 0) => [
                    digits.to_string(),
                    format!("{digits}.0"),
                    format!("{digits}0E-1"),
                    format!("{digits}.00e+0"),
                ],
                (digits, power) => [
                    format!("{digits}e{power}"),
                    format!("{digits}0E{}", power - 1),
                    format!("{digits}.0e{power}"),
                    format!("{digits}000e{}", power - 3),
                ],
            };
            text.push_str(&spellings[usize::from(choose(choices, 4))]);
        }
        Json::Text(content) => spell_text(content, choices, text),
        Json::Array(elements) => {
            text.push('[');
            for (at, element) in elements.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                spell(element, choices, text);
            }
            text.push_str(space);
            text.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if choose(choices, 2) == 1 {
                members.reverse();
            }
            text.push('{');
            for (at, (name, member)) in members.into_iter().enumerate() {
                text.push_str(if at == 0 { space } else { "," });
                spell_text(name, choices, text);
                text.push_str(space);
                text.push(':');
                spell(member, choices, text);
            }
            text.push('}');
        }
    }
    text.push_str(space);
}

fn spell_text(content: &str, choices: &mut impl Iterator<Item = u8>, text: &mut String) {
    text.push('"');
    for character in content.chars() {
        if choose(choices, 2) == 0 && !['"', '\\'].contains(&character) {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").unwrap();
            }
        }
    }
    text.push('"');
}

/// Another value that differs from it in one place.
fn change(json: &mut Json, choices: &mut impl Iterator<Item = u8>) {
    let go_down = choose(choices, 3) > 0;
    match json {
        Json::Array(elements) if go_down && !elements.is_empty() => {
            let at = usize::from(choose(choices, 8)) % elements.len();
            change(&mut elements[at], choices);
        }
        Json::Object(members) if go_down && !members.is_empty() => {
            let at = usize::from(choose(choices, 8)) % members.len();
            let member = members.values_mut().nth(at).unwrap();
            change(member, choices);
        }
        Json::Null => *json = Json::Bool(false),
        Json::Bool(is) => *is = !*is,
        // The same digits as text are another value.
        Json::Number(digits, 0) => *json = Json::Text(digits.to_string()),
        Json::Number(digits, power) => *json = number(*digits, *power - 1),
        Json::Text(content) => content.push(' '),
        Json::Array(elements) => elements.push(Json::Null),
        Json::Object(members) => drop(members.insert("new".to_owned(), Json::Null)),
    }
}

/// The fingerprints of these bodies.
async fn fingerprints(bodies: &[String]) -> Vec<Option<Fingerprint>> {
    let store = Yes::default();
    let (builder, deadline) = builder(&store);
    let service = builder
        .build()
        .unwrap()
        .sqs_with(
            |_: &Delivery| Ok(()),
            |_: Message<()>| async { Ok::<(), HandlerError>(()) },
        )
        .fingerprint_body();
    for body in bodies {
        let one = batch([Record::new("m-1", body)]);
        service.process(one, &context(deadline)).await.unwrap();
    }
    let claims = store.take_claims();
    claims.into_iter().map(|claim| claim.fingerprint).collect()
}

fn spelled(json: &Json, choices: &[u8]) -> String {
    let mut text = String::new();
    spell(json, &mut choices.iter().copied(), &mut text);
    text
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 64)
}

#[test]
fn two_spellings_of_one_value_have_one_fingerprint() {
    let strategy = (json(), choices(), choices());
    check(
        200,
        &strategy,
        async {},
        |_, (json, one, other)| async move {
            let bodies = [spelled(&json, &one), spelled(&json, &other)];
            let found = fingerprints(&bodies).await;
            prop_assert!(found[0].is_some());
            prop_assert_eq!(&found[0], &found[1], "{:?}", bodies);
            Ok(())
        },
    );
}

#[test]
fn a_value_that_was_changed_in_one_place_has_another_fingerprint() {
    let strategy = (json(), choices(), choices(), choices());
    check(
        200,
        &strategy,
        async {},
        |_, (json, one, other, place)| async move {
            let mut changed = json.clone();
            change(&mut changed, &mut place.into_iter());
            let bodies = [spelled(&json, &one), spelled(&changed, &other)];
            let found = fingerprints(&bodies).await;
            prop_assert_eq!(found.len(), 2);
            prop_assert_ne!(&found[0], &found[1], "{:?}", bodies);
            Ok(())
        },
    );
}

#[test]
fn two_values_have_one_fingerprint_only_if_they_are_equal() {
    let strategy = (json(), json());
    check(200, &strategy, async {}, |_, (one, other)| async move {
        let bodies = [spelled(&one, &[]), spelled(&other, &[])];
        let found = fingerprints(&bodies).await;
        prop_assert_eq!(found[0] == found[1], one == other, "{:?}", bodies);
        Ok(())
    });
}

#[test]
fn text_that_is_not_json_counts_to_the_letter() {
    let text = || "(not json )?[ab ]{0,3}";
    check(
        200,
        &(text(), text()),
        async {},
        |_, (one, other)| async move {
            let found = fingerprints(&[one.clone(), other.clone()]).await;
            prop_assert!(found[0].is_some());
            prop_assert_eq!(found[0] == found[1], one == other);
            Ok(())
        },
    );
}
