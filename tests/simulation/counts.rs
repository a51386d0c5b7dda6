//! What happened, how often.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(&'static str, &'static str), u64>);

impl Counts {
    pub fn add(&mut self, kind: &'static str, what: &'static str) {
        self.add_many(kind, what, 1);
    }

    pub fn add_many(&mut self, kind: &'static str, what: &'static str, times: u64) {
        *self.0.entry((kind, what)).or_default() += times;
    }

    pub fn of(&self, kind: &'static str, what: &'static str) -> u64 {
        self.0.get(&(kind, what)).copied().unwrap_or_default()
    }

    pub fn all(&self, kind: &'static str) -> u64 {
        let of_kind = self.0.iter().filter(|((of, _), _)| *of == kind);
        of_kind.map(|(_, times)| times).sum()
    }

    pub fn merge(&mut self, other: &Self) {
        for ((kind, what), times) in &other.0 {
            self.add_many(kind, what, *times);
        }
    }
}

/// One line a kind.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = "";
        for ((kind, what), times) in &self.0 {
            if *kind == last {
                write!(f, ", ")?;
            } else if last.is_empty() {
                write!(f, "{kind}: ")?;
            } else {
                write!(f, "\n{kind}: ")?;
            }
            write!(f, "{what} {times}")?;
            last = kind;
        }
        Ok(())
    }
}
