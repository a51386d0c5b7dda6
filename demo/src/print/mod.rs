//! What the demo says: for a person, or as JSON lines.

mod human;
mod json;
mod style;

use std::io;

use crate::events::EventFile;
use crate::ledger::Ledger;
use crate::run::{Ended, Totals};

/// Is told what happens as it happens.
pub(crate) trait Printer {
    fn start(&mut self, place: &str) -> io::Result<()>;
    fn event(&mut self, ended: &Ended) -> io::Result<()>;
    fn end(&mut self, ledger: &Ledger, totals: &Totals) -> io::Result<()>;
}

pub(crate) fn printer(as_json: bool, events: &[EventFile]) -> Box<dyn Printer> {
    if as_json {
        Box::new(json::Lines::new())
    } else {
        Box::new(human::Table::new(events))
    }
}

/// Text from files and errors in one line, without anything that a terminal would act on.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
