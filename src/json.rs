//! JSON text read without loss: pointers into it, numbers as exact decimals, one canonical form.
//!
//! `serde_json::Value` would round numbers to 64 bits and its exact mode is a feature that changes
//! the whole application, so values stay raw text here until they are needed.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as _, Deserializer as _};
use serde_json::value::RawValue;

/// How deeply arrays and objects may be nested, as in `serde_json`.
const MAX_DEPTH: usize = 128;

/// A JSON pointer ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)): `/payment/id`, `/items/0`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    /// Parses the pointer; the error is a sentence for the person who wrote it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(unescape_token).collect(),
            None if text.is_empty() => Some(Vec::new()),
            None => {
                return Err(format!(
                    "the JSON pointer {text:?} must start with `/`: write \"/{text}\""
                ));
            }
        };
        match tokens {
            Some(tokens) => Ok(Self {
                text: text.to_owned(),
                tokens,
            }),
            None => Err(format!(
                "the JSON pointer {text:?} has a `~` that is not `~0` (for `~`) or `~1` (for `/`)"
            )),
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn unescape_token(token: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        match character {
            '~' => match characters.next() {
                Some('0') => unescaped.push('~'),
                Some('1') => unescaped.push('/'),
                _ => return None,
            },
            other => unescaped.push(other),
        }
    }
    Some(unescaped)
}

/// One JSON value, as what a key needs to know of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string's content, a number as an exact decimal, `true` or `false`.
    Text(String),
    Null,
    /// An object or an array.
    Container,
}

/// The value that `pointer` names in the JSON `text`, or `None` if there is none.
///
/// Of an object's members with the same name the last one counts, as in `serde_json`.
pub(crate) fn find<'a>(
    text: &'a str,
    pointer: &Pointer,
) -> Result<Option<&'a RawValue>, serde_json::Error> {
    let Some((first, others)) = pointer.tokens.split_first() else {
        return serde_json::from_str(text).map(Some);
    };
    // The whole text is read here, so that what follows the value that is sought is JSON too.
    let mut found = child(text, first)?;
    for token in others {
        match found {
            Some(value) => found = child(value.get(), token)?,
            None => break,
        }
    }
    Ok(found)
}

/// The member or the element of the JSON `text` that `token` names.
fn child<'a>(text: &'a str, token: &str) -> Result<Option<&'a RawValue>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = match (
        text.trim_ascii_start().as_bytes().first(),
        array_index(token),
    ) {
        (Some(b'{'), _) => deserializer.deserialize_map(MemberNamed(token))?,
        (Some(b'['), Some(index)) => deserializer.deserialize_seq(ElementAt(index))?,
        _ => {
            IgnoredAny::deserialize(&mut deserializer)?;
            None
        }
    };
    deserializer.end()?;
    Ok(found)
}

/// Reads one raw value as a key would.
pub(crate) fn scalar(value: &RawValue) -> Result<Scalar, serde_json::Error> {
    let text = value.get();
    Ok(match text.as_bytes().first() {
        Some(b'{' | b'[') => Scalar::Container,
        Some(b'n') => Scalar::Null,
        Some(b'"') => Scalar::Text(serde_json::from_str(text)?),
        Some(b't' | b'f') => Scalar::Text(text.to_owned()),
        _ => Scalar::Text(decimal(text)),
    })
}

/// The value in its one canonical form: members sorted by name, numbers as exact decimals, no
/// white space, one way to escape. Two texts have the same form if and only if they mean the same
/// (but for numbers whose exponent takes more than 64 bits: they count as they are written).
pub(crate) fn canonical(text: &str) -> Result<String, serde_json::Error> {
    let value: &RawValue = serde_json::from_str(text)?;
    let mut form = String::with_capacity(text.len());
    write_canonical(value, 0, &mut form)?;
    Ok(form)
}

// Each level of nesting scans what is within it once more: at most `MAX_DEPTH` times the text.
fn write_canonical(
    value: &RawValue,
    depth: usize,
    form: &mut String,
) -> Result<(), serde_json::Error> {
    if depth > MAX_DEPTH {
        return Err(serde::de::Error::custom("nested too deeply"));
    }
    let text = value.get();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    match text.as_bytes().first() {
        Some(b'{') => {
            let mut members = deserializer.deserialize_map(Members)?;
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            for (at, (name, member)) in members.iter().enumerate() {
                form.push(if at == 0 { '{' } else { ',' });
                form.push_str(&serde_json::to_string(name)?);
                form.push(':');
                write_canonical(member, depth + 1, form)?;
            }
            form.push_str(if members.is_empty() { "{}" } else { "}" });
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text)?;
            for (at, element) in elements.iter().enumerate() {
                form.push(if at == 0 { '[' } else { ',' });
                write_canonical(element, depth + 1, form)?;
            }
            form.push_str(if elements.is_empty() { "[]" } else { "]" });
        }
        Some(b'"') => {
            let content: String = serde_json::from_str(text)?;
            form.push_str(&serde_json::to_string(&content)?);
        }
        Some(b'n' | b't' | b'f') => form.push_str(text),
        _ => form.push_str(&decimal(text)),
    }
    Ok(())
}

/// A number's exact value in one form, whatever way it is written: `10`, `10.0` and `1e1` are `10`.
///
/// Text that is not a number stays as it is, and so does one whose exponent takes more than 64 bits.
pub(crate) fn decimal(text: &str) -> String {
    exact_decimal(text).unwrap_or_else(|| text.to_owned())
}

fn exact_decimal(text: &str) -> Option<String> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = [whole, fraction].concat();
    if all.is_empty() || !all.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_start_matches('0');
    let digits = significant.trim_end_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let trailing_zeros = i64::try_from(significant.len() - digits.len()).ok()?;
    // The value is `digits` times ten to the power of `scale`.
    let scale = exponent
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(trailing_zeros)?;
    let sign = if negative { "-" } else { "" };
    Some(match usize::try_from(scale) {
        Ok(zeros) if zeros <= 40 => format!("{sign}{digits}{}", "0".repeat(zeros)),
        _ => format!("{sign}{digits}e{scale}"),
    })
}

/// How `serde` begins a message that goes on with the offending value.
const KINDS: [&str; 14] = [
    "invalid type: string",
    "invalid type: integer",
    "invalid type: floating point",
    "invalid type: boolean",
    "invalid type: null",
    "invalid type: sequence",
    "invalid type: map",
    "invalid value: string",
    "invalid value: integer",
    "invalid value: floating point",
    "invalid value: character",
    "invalid length",
    "unknown variant",
    "unknown field",
];

const OTHER: &str = "a value is not what the type accepts";

/// What may be said of a failed decoding without repeating what was in the message: the expected
/// shape and the place, never a value. (`serde` puts the offending value into its message.)
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let full = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = full.strip_suffix(&place).unwrap_or(&full);
    let told = if !error.is_data() {
        // Syntax and end-of-input errors name no values.
        message.to_owned()
    } else if message.starts_with("missing field `") || message.starts_with("duplicate field `") {
        message.to_owned()
    } else if let Some((found, expected)) = message.rsplit_once(", expected ") {
        match KINDS.iter().find(|kind| found.starts_with(**kind)) {
            Some(kind) => format!("{kind}, expected {expected}"),
            None => OTHER.to_owned(),
        }
    } else {
        OTHER.to_owned()
    };
    if error.line() == 0 {
        told
    } else {
        told + &place
    }
}

fn array_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with(['0', '+', '-']);
    if canonical { token.parse().ok() } else { None }
}

/// Finds the last member of this name, without copying any other.
struct MemberNamed<'n>(&'n str);

impl<'de> Visitor<'de> for MemberNamed<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = members.next_key_seed(NameIs(self.0))? {
            if is_it {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct NameIs<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

struct ElementAt(usize);

impl<'de> Visitor<'de> for ElementAt {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let mut at = 0;
        while let Some(element) = elements.next_element::<&RawValue>()? {
            if at == self.0 {
                found = Some(element);
            }
            at += 1;
        }
        Ok(found)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = source.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, pointer: &str) -> Option<Scalar> {
        let pointer = Pointer::parse(pointer).unwrap();
        find(text, &pointer)
            .unwrap()
            .map(|value| scalar(value).unwrap())
    }

    fn text(content: &str) -> Option<Scalar> {
        Some(Scalar::Text(content.to_owned()))
    }

    #[test]
    fn pointers_follow_rfc_6901() {
        let document = r#"{"a":{"b":[10,{"c~d/e":"x"}]},"":"empty","dup":1,"dup":2}"#;
        assert_eq!(found(document, "/a/b/0"), text("10"));
        assert_eq!(found(document, "/a/b/1/c~0d~1e"), text("x"));
        assert_eq!(found(document, "/"), text("empty"));
        assert_eq!(found(document, "/dup"), text("2"));
        assert_eq!(found(document, ""), Some(Scalar::Container));
        for nowhere in ["/a/b/2", "/a/b/00", "/a/b/-", "/a/b/+1", "/z", "/dup/x"] {
            assert_eq!(found(document, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_pointer_that_is_none_says_how_to_write_it() {
        assert!(Pointer::parse("a").unwrap_err().contains("\"/a\""));
        assert!(Pointer::parse("/a~2").unwrap_err().contains("~0"));
        assert!(Pointer::parse("/a~").unwrap_err().contains("~0"));
    }

    #[test]
    fn numbers_keep_every_digit_and_lose_only_their_spelling() {
        for (written, value) in [
            ("10", "10"),
            ("10.0", "10"),
            ("1e1", "10"),
            ("100E-1", "10"),
            ("-0.0", "0"),
            ("0.10", "1e-1"),
            (
                "12345678901234567890123456789012345678",
                "12345678901234567890123456789012345678",
            ),
            (
                "12345678901234567890123456789012345679",
                "12345678901234567890123456789012345679",
            ),
            ("1e400", "1e400"),
            ("10e399", "1e400"),
            ("-2.50", "-25e-1"),
        ] {
            assert_eq!(decimal(written), value, "{written}");
        }
        for not_a_number in ["", "-", "1x", "1e", "1e99999999999999999999", ".", "NaN"] {
            assert_eq!(decimal(not_a_number), not_a_number);
        }
    }

    #[test]
    fn the_canonical_form_ignores_order_space_and_spelling_only() {
        let one = canonical(r#"{ "b" : [1.0, "\u0041"], "a" : null }"#).unwrap();
        assert_eq!(one, r#"{"a":null,"b":[1,"A"]}"#);
        assert_eq!(canonical("{}").unwrap(), "{}");
        assert_eq!(canonical("[ ]").unwrap(), "[]");
        assert_ne!(canonical("[1,2]").unwrap(), canonical("[2,1]").unwrap());
        assert_ne!(canonical(r#""1""#).unwrap(), canonical("1").unwrap());
    }

    #[test]
    fn nesting_without_end_is_refused_not_followed() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(canonical(&deep).is_err());
    }

    #[test]
    fn a_description_names_the_place_and_never_the_value() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its decoding is looked at")]
        struct Card {
            number: u64,
        }
        let describe = |text| describe(&serde_json::from_str::<Card>(text).unwrap_err());
        let told = describe(r#"{"number":"4111, expected 1111"}"#);
        assert_eq!(
            told,
            "invalid type: string, expected u64 at line 1 column 31"
        );
        assert!(
            describe(r#"{"number":-4111}"#).starts_with("invalid value: integer, expected u64")
        );
        assert!(describe("{}").starts_with("missing field `number`"));
        assert!(describe("4111 1111").contains("line 1 column"));
        let custom: serde_json::Error = serde::de::Error::custom("4111 is no card");
        assert!(!super::describe(&custom).contains("4111"));
    }
}
