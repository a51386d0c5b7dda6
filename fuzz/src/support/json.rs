//! JSON by its meaning: read without loss, written in another spelling, changed in one place.
//!
//! Written anew, and slow: what the crate does must agree with it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fastrand::Rng;

/// Less than any limit of the crate: what is nested deeper has no meaning to compare.
const MAX_DEPTH: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// What the text means, if it is JSON and all of it is valid Unicode.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let value = reader.value(0)?;
        reader.space();
        reader.rest.is_empty().then_some(value)
    }

    /// One of the ways to write it.
    pub(crate) fn spelled(&self, draws: &mut Rng) -> String {
        let mut text = String::new();
        self.spell(draws, &mut text);
        text
    }

    fn spell(&self, draws: &mut Rng, text: &mut String) {
        space(draws, text);
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(is) => text.push_str(if *is { "true" } else { "false" }),
            Self::Number(number) => text.push_str(&spell_number(number, draws)),
            Self::Text(content) => spell_text(content, draws, text),
            Self::Array(elements) => {
                text.push('[');
                space(draws, text);
                for (at, element) in elements.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    element.spell(draws, text);
                }
                text.push(']');
            }
            Self::Object(members) => {
                let mut order: Vec<_> = members.iter().collect();
                let names: BTreeSet<_> = members.iter().map(|(name, _)| name).collect();
                // Of two members with one name the order counts.
                if names.len() == members.len() {
                    draws.shuffle(&mut order);
                }
                text.push('{');
                space(draws, text);
                for (at, (name, member)) in order.into_iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { "," });
                    space(draws, text);
                    spell_text(name, draws, text);
                    space(draws, text);
                    text.push(':');
                    member.spell(draws, text);
                }
                text.push('}');
            }
        }
        space(draws, text);
    }

    /// Makes another value of it that differs in one place.
    pub(crate) fn change(&mut self, draws: &mut Rng) {
        let go_down = draws.u8(..3) > 0;
        match self {
            Self::Array(elements) if go_down && !elements.is_empty() => {
                let at = draws.usize(..elements.len());
                elements[at].change(draws);
            }
            Self::Object(members) if go_down && !members.is_empty() => {
                let at = draws.usize(..members.len());
                members[at].1.change(draws);
            }
            Self::Null => *self = Self::Bool(false),
            Self::Bool(is) => *is = !*is,
            // The same number as text is another value, and so is one with a digit in front.
            Self::Number(number) if go_down => *self = Self::Text(number.clone()),
            Self::Number(number) => number.insert(usize::from(number.starts_with('-')), '1'),
            Self::Text(content) => content.push(' '),
            Self::Array(elements) => elements.push(Self::Null),
            Self::Object(members) => {
                let name = format!(
                    "{}+",
                    members
                        .iter()
                        .map(|(name, _)| name.as_str())
                        .max()
                        .unwrap_or("")
                );
                members.push((name, Self::Null));
            }
        }
    }
}

fn space(draws: &mut Rng, text: &mut String) {
    text.push_str(["", "", "", " ", "\n\t", "\r\n  "][draws.usize(..6)]);
}

fn spell_number(number: &str, draws: &mut Rng) -> String {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (number, None),
    };
    // Larger ones count as they are written.
    let is_large = |exponent: &str| exponent.trim_start_matches(['+', '-', '0']).len() > 18;
    if exponent.is_some_and(is_large) {
        return number.to_owned();
    }
    let mut spelled = mantissa.to_owned();
    if draws.bool() {
        spelled.push_str(if mantissa.contains('.') { "00" } else { ".0" });
    }
    let e = if draws.bool() { 'e' } else { 'E' };
    match exponent {
        None if draws.bool() => {}
        None => spelled.extend([e, ['+', '-'][draws.usize(..2)], '0']),
        Some(exponent) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ("-", digits),
                None => ("", exponent.trim_start_matches('+')),
            };
            let sign = if sign.is_empty() && draws.bool() {
                "+"
            } else {
                sign
            };
            let zeros = ["", "000"][draws.usize(..2)];
            let _ = write!(spelled, "{e}{sign}{zeros}{digits}");
        }
    }
    spelled
}

fn spell_text(content: &str, draws: &mut Rng, text: &mut String) {
    text.push('"');
    for character in content.chars() {
        let plain = character >= ' ' && !['"', '\\'].contains(&character);
        match (character, draws.u8(..3)) {
            ('/', 0) => text.push_str("\\/"),
            ('\n', 0) => text.push_str("\\n"),
            ('"' | '\\', 0) => text.extend(['\\', character]),
            (_, 1 | 2) if plain => text.push(character),
            (_, draw) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = match draw {
                        1 => write!(text, "\\u{unit:04X}"),
                        _ => write!(text, "\\u{unit:04x}"),
                    };
                }
            }
        }
    }
    text.push('"');
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn takes(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.space();
        match self.rest.as_bytes().first()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.text().map(Json::Text),
            _ if self.takes("null") => Some(Json::Null),
            _ if self.takes("true") => Some(Json::Bool(true)),
            _ if self.takes("false") => Some(Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        self.takes("[");
        let mut elements = Vec::new();
        if self.takes("]") {
            return Some(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            if self.takes("]") {
                return Some(Json::Array(elements));
            }
            self.takes(",").then_some(())?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.takes("{");
        let mut members = Vec::new();
        if self.takes("}") {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.text()?;
            self.takes(":").then_some(())?;
            members.push((name, self.value(depth + 1)?));
            if self.takes("}") {
                return Some(Json::Object(members));
            }
            self.takes(",").then_some(())?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let end = self
            .rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        let unsigned = number.strip_prefix('-').unwrap_or(number);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_number = digits(whole)
            && (whole == "0" || !whole.starts_with('0'))
            && fraction.is_none_or(digits)
            && exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)));
        is_number.then(|| Json::Number(number.to_owned()))
    }

    fn text(&mut self) -> Option<String> {
        let mut units = Vec::new();
        let mut characters = self.rest.strip_prefix('"')?.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 2..];
                    return String::from_utf16(&units).ok();
                }
                '\\' => units.push(match characters.next()?.1 {
                    'n' => 0x0a,
                    't' => 0x09,
                    'r' => 0x0d,
                    'b' => 0x08,
                    'f' => 0x0c,
                    plain @ ('"' | '\\' | '/') => plain as u16,
                    'u' => {
                        let mut unit = 0;
                        for _ in 0..4 {
                            unit = unit * 16 + characters.next()?.1.to_digit(16)?;
                        }
                        u16::try_from(unit).ok()?
                    }
                    _ => return None,
                }),
                control if control < ' ' => return None,
                plain => units.extend_from_slice(plain.encode_utf16(&mut [0; 2])),
            }
        }
        None
    }
}
