//! What the demo says: for a person, or as JSON lines.

mod human;
mod json;
mod style;
mod text;

use std::io;

use crate::args::Args;
use crate::events::EventFile;
use crate::ledger::Ledger;
use crate::run::{Ended, Totals};

pub(crate) use text::one_line;

/// Is told what happens as it happens.
pub(crate) trait Printer {
    fn start(&mut self, place: &str) -> io::Result<()>;
    fn event(&mut self, ended: &Ended) -> io::Result<()>;
    fn end(&mut self, ledger: &Ledger, totals: &Totals) -> io::Result<()>;
}

pub(crate) fn printer(args: &Args, events: &[EventFile]) -> Box<dyn Printer> {
    if args.json {
        Box::new(json::Lines::new())
    } else {
        Box::new(human::Table::new(events, args.is_bare()))
    }
}
