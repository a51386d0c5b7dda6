//! The table for a person. It is printed as it grows, so the widths are settled beforehand.

use std::io::{self, Write as _};

use lambda_idempotency::Outcome;

use super::style::Style;
use super::{Printer, one_line};
use crate::events::EventFile;
use crate::ledger::Ledger;
use crate::run::{Ended, MessageEnded, Totals};

const WIDEST_EVENT: usize = 40;
const WIDEST_ID: usize = 24;
const OUTCOME: usize = "unprocessed".len();
const NO_ID: &str = "(no id)";

pub(super) struct Table {
    out: io::Stdout,
    style: Style,
    event_width: usize,
    id_width: usize,
}

impl Table {
    pub(super) fn new(events: &[EventFile]) -> Self {
        let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or_default();
        let titles = &mut events
            .iter()
            .map(|event| title(&event.name).chars().count());
        let ids = &mut events
            .iter()
            .flat_map(EventFile::message_ids)
            .map(|id| short(id.as_deref()).chars().count());
        Self {
            out: io::stdout(),
            style: Style::of_stdout(),
            event_width: widest(titles).max("EVENT".len()),
            id_width: widest(ids).max("MESSAGE".len()),
        }
    }

    fn row(&mut self, event: &str, id: &str, outcome: &str, why: &str) -> io::Result<()> {
        let line = format!("{event}  {id}  {outcome}  {why}");
        writeln!(self.out, "{}", line.trim_end())
    }

    fn message(&mut self, event: &str, is_first: bool, message: &MessageEnded) -> io::Result<()> {
        let style = self.style;
        let event = pad(event, self.event_width);
        let event = if is_first { event } else { style.dim(&event) };
        let id = pad(&short(message.message_id.as_deref()), self.id_width);
        let outcome = pad(message.outcome.as_str(), OUTCOME);
        let why = why(message);
        let why = if message.outcome == Outcome::Failed {
            why
        } else {
            style.dim(&why)
        };
        self.row(&event, &id, &style.outcome(message.outcome, &outcome), &why)
    }

    fn ledger(&mut self, ledger: &Ledger) -> io::Result<()> {
        let style = self.style;
        writeln!(self.out, "{}", style.bold("LEDGER, in cents"))?;
        let accounts = ledger.accounts.iter();
        let mut rows: Vec<(String, String)> = accounts
            .map(|(id, balance)| (format!("account {}", one_line(id)), grouped(*balance)))
            .collect();
        rows.push((
            format!("{} payments", ledger.payments),
            grouped(ledger.paid),
        ));
        let name_width = rows.iter().map(|(name, _)| name.chars().count()).max();
        let sum_width = rows
            .iter()
            .map(|(_, sum)| sum.len())
            .max()
            .unwrap_or_default();
        for (name, sum) in rows {
            let name = pad(&name, name_width.unwrap_or_default());
            writeln!(self.out, "  {name}  {sum:>sum_width$}")?;
        }
        match ledger.excess() {
            0 => writeln!(
                self.out,
                "  {}",
                style.good("The balances add up to the payments: each took effect once.")
            ),
            excess => writeln!(
                self.out,
                "  {}",
                style.bad(&format!(
                    "The balances differ from the payments by {}: not every payment took effect \
                     once.",
                    grouped(excess)
                ))
            ),
        }
    }

    fn requests(&mut self, totals: &Totals) -> io::Result<()> {
        writeln!(self.out, "{}", self.style.bold("REQUESTS TO DYNAMODB"))?;
        let all = totals.all();
        let rows = totals.by_outcome.iter().map(|(name, sum)| (*name, *sum));
        for (name, sum) in rows.chain([("in all", all)]) {
            writeln!(
                self.out,
                "  {name:OUTCOME$}  {:>5} messages  {:>5} requests  {:>6.2} a message",
                sum.messages,
                sum.requests,
                sum.requests_per_message()
            )?;
        }
        let operations: Vec<String> = totals
            .operations
            .iter()
            .map(|(operation, requests)| format!("{requests} {operation}"))
            .collect();
        let operations = self.style.dim(&operations.join(", "));
        writeln!(self.out, "  {operations}")
    }
}

impl Printer for Table {
    fn start(&mut self, place: &str) -> io::Result<()> {
        writeln!(
            self.out,
            "The sample function of examples/payments, on {place}"
        )?;
        writeln!(self.out)?;
        let style = self.style;
        self.row(
            &style.bold(&pad("EVENT", self.event_width)),
            &style.bold(&pad("MESSAGE", self.id_width)),
            &style.bold(&pad("OUTCOME", OUTCOME)),
            &style.bold("WHY"),
        )
    }

    fn event(&mut self, ended: &Ended) -> io::Result<()> {
        let style = self.style;
        let title = title(&ended.event);
        for (at, message) in ended.messages.iter().enumerate() {
            self.message(&title, at == 0, message)?;
        }
        if ended.messages.is_empty() {
            writeln!(self.out, "{title}")?;
        }
        let took = style.dim(&format!("({} ms)", ended.took.as_millis()));
        match &ended.answer {
            Ok(response) => {
                let json = one_line(&response.json.to_string());
                let comes_back = match response.unfinished {
                    0 => "nothing comes back".to_owned(),
                    n => format!("{n} of {} comes back", ended.messages.len()),
                };
                writeln!(
                    self.out,
                    "  {} {json}",
                    style.dim(&format!("-> {comes_back}"))
                )?;
                let _ = took;
            }
            Err(error) => {
                let error = style.bad(&format!("-> the invocation fails: {}", one_line(error)));
                writeln!(self.out, "  {error}")?;
            }
        }
        writeln!(self.out)
    }

    fn end(&mut self, ledger: &Ledger, totals: &Totals) -> io::Result<()> {
        self.ledger(ledger)?;
        writeln!(self.out)?;
        self.requests(totals)
    }
}

/// Why the message has its outcome, as far as the outcome does not say so itself.
fn why(message: &MessageEnded) -> String {
    let reason = message.reason.map(|reason| reason.as_str());
    match (reason, message.error.as_deref()) {
        (Some(reason), Some(error)) => format!("{reason}: {}", one_line(error)),
        (Some(reason), None) => reason.to_owned(),
        (None, Some(error)) => one_line(error),
        (None, None) => String::new(),
    }
}

/// The file's name without its ending and its directory.
fn title(event: &str) -> String {
    let path = std::path::Path::new(event);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    cut(&one_line(&stem.unwrap_or_default()), WIDEST_EVENT)
}

/// A UUID by its first eight digits, which is enough to find it in a response; others as they are.
fn short(id: Option<&str>) -> String {
    let Some(id) = id else {
        return NO_ID.to_owned();
    };
    let is_uuid = id.len() == 36 && id.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    match id.split_once('-') {
        Some((first, _)) if is_uuid => format!("{first}…"),
        _ => cut(&one_line(id), WIDEST_ID),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    format!("{kept}…")
}

/// Colours count as text to the formatter, so padding comes before them.
fn pad(text: &str, width: usize) -> String {
    format!("{text:width$}")
}

/// 1234567 as `1 234 567`.
fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    if number < 0 {
        format!("-{grouped}")
    } else {
        grouped
    }
}
