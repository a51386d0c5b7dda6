//! The table for a person. It is printed as it grows, so the widths are settled beforehand.

use std::io::{self, Write as _};
use std::path::Path;

use lambda_idempotency::{Outcome, Reason};

use super::Printer;
use super::style::Style;
use super::text::{count, cut, grouped, one_line, pad, wrap};
use crate::events::EventFile;
use crate::ledger::Ledger;
use crate::run::{Ended, MessageEnded, Response, Totals};

const GAP: &str = "  ";
const WIDEST_EVENT: usize = 40;
const ID: usize = 14;
const OUTCOME: usize = "unprocessed".len();
/// A reason in a narrower column is harder to read than one that the terminal breaks.
const NARROWEST_WHY: usize = 30;

const NEXT: &str = "\
Next:  cargo run -- --key message-id     a redrive has a new message id: it is paid twice
       cargo run -- --keep demo.db       run it twice: the second time all are duplicates
       cargo run -- my-event.json        an event of your own; --json for JSON lines";

pub(super) struct Table {
    out: io::Stdout,
    style: Style,
    event_width: usize,
    /// Of a terminal. Without one, a message is one line.
    why_width: Option<usize>,
    says_what_is_next: bool,
}

impl Table {
    pub(super) fn new(events: &[EventFile], says_what_is_next: bool) -> Self {
        let titles = events.iter().map(|event| title(&event.name));
        let event_width = widest(titles.chain(["EVENT".to_owned()]));
        let why_at = event_width + ID + OUTCOME + 3 * GAP.len();
        let why_width = terminal_size::terminal_size_of(io::stdout())
            .map(|(width, _)| usize::from(width.0).saturating_sub(why_at))
            .filter(|width| *width >= NARROWEST_WHY);
        Self {
            out: io::stdout(),
            style: Style::of_stdout(),
            event_width,
            why_width,
            says_what_is_next,
        }
    }

    fn row(&mut self, event: &str, id: &str, outcome: &str, why: &str) -> io::Result<()> {
        let line = [event, id, outcome, why].join(GAP);
        writeln!(self.out, "{}", line.trim_end())
    }

    fn message(&mut self, event: &str, is_first: bool, message: &MessageEnded) -> io::Result<()> {
        let style = self.style;
        let event = pad(event, self.event_width);
        let event = if is_first { event } else { style.dim(&event) };
        let id = pad(&short(message.message_id.as_deref()), ID);
        let outcome = style.outcome(message.outcome, &pad(message.outcome.as_str(), OUTCOME));
        let why = why(message);
        let lines = match self.why_width {
            Some(width) => wrap(&why, width),
            None => vec![why],
        };
        let nothing = |width| " ".repeat(width);
        for (at, line) in lines.iter().enumerate() {
            let line = match message.outcome {
                Outcome::Failed => line.clone(),
                _ => style.dim(line),
            };
            if at == 0 {
                self.row(&event, &id, &outcome, &line)?;
            } else {
                let [event, id] = [self.event_width, ID].map(nothing);
                self.row(&event, &id, &nothing(OUTCOME), &line)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, ended: &Ended) -> io::Result<()> {
        let style = self.style;
        let effort = style.dim(&format!(
            "({}, {} ms)",
            count(ended.requests.values().sum(), "request"),
            ended.took.as_millis()
        ));
        match &ended.answer {
            Ok(response) => {
                let what = comes_back(response, ended.messages.len());
                let json = style.dim(&one_line(&response.json.to_string()));
                writeln!(self.out, "  -> {what} {effort} {json}")
            }
            Err(error) => {
                let what = style.bad(&format!("the invocation fails: {}", one_line(error)));
                writeln!(self.out, "  -> {what} {effort}")
            }
        }
    }

    fn ledger(&mut self, ledger: &Ledger) -> io::Result<()> {
        let style = self.style;
        let account = |(id, balance): (&String, &i128)| {
            (format!("account {}", one_line(id)), grouped(*balance))
        };
        let mut rows: Vec<(String, String)> = ledger.accounts.iter().map(account).collect();
        rows.push((count(ledger.payments, "payment"), grouped(ledger.paid)));
        let names = widest(rows.iter().map(|(name, _)| name.clone()));
        let sums = widest(rows.iter().map(|(_, sum)| sum.clone()));

        writeln!(self.out, "{}", style.bold("LEDGER, in cents"))?;
        for (name, sum) in rows {
            writeln!(self.out, "  {}  {sum:>sums$}", pad(&name, names))?;
        }
        let verdict = match ledger.excess() {
            0 if ledger.payments == 0 => style.dim("No payment was booked."),
            0 => style.good("The balances add up to the payments: each took effect once."),
            excess => style.bad(&format!(
                "The balances are off by {}: not every payment took effect once.",
                grouped(excess)
            )),
        };
        writeln!(self.out, "  {verdict}")
    }

    fn requests(&mut self, totals: &Totals) -> io::Result<()> {
        writeln!(self.out, "{}", self.style.bold("REQUESTS TO DYNAMODB"))?;
        let outcomes = totals.by_outcome.iter().map(|(name, sum)| (*name, *sum));
        for (name, sum) in outcomes.chain([("in all", totals.all())]) {
            let messages = count(sum.messages, "message");
            let requests = count(sum.requests, "request");
            let ratio = sum.requests_per_message();
            writeln!(
                self.out,
                "  {name:OUTCOME$}  {messages:>13}  {requests:>13}  {ratio:>6.2} each"
            )?;
        }
        let operations = totals.operations.iter();
        let operations: Vec<String> = operations
            .map(|(operation, requests)| format!("{requests} {operation}"))
            .collect();
        if operations.is_empty() {
            return Ok(());
        }
        let operations = self.style.dim(&operations.join(", "));
        writeln!(self.out, "  {operations}")
    }
}

impl Printer for Table {
    fn start(&mut self, place: &str) -> io::Result<()> {
        let style = self.style;
        writeln!(
            self.out,
            "SQS events through the function of examples/payments, on {place}\n"
        )?;
        self.row(
            &style.bold(&pad("EVENT", self.event_width)),
            &style.bold(&pad("MESSAGE", ID)),
            &style.bold(&pad("OUTCOME", OUTCOME)),
            &style.bold("WHY"),
        )
    }

    fn event(&mut self, ended: &Ended) -> io::Result<()> {
        let title = title(&ended.event);
        if ended.messages.is_empty() {
            writeln!(self.out, "{title}")?;
        }
        for (at, message) in ended.messages.iter().enumerate() {
            self.message(&title, at == 0, message)?;
        }
        self.answer(ended)?;
        writeln!(self.out)
    }

    fn end(&mut self, ledger: &Ledger, totals: &Totals) -> io::Result<()> {
        self.ledger(ledger)?;
        writeln!(self.out)?;
        self.requests(totals)?;
        if self.says_what_is_next {
            writeln!(self.out, "\n{}", self.style.dim(NEXT))?;
        }
        Ok(())
    }
}

/// Why the message has its outcome, where the outcome does not say so itself.
fn why(message: &MessageEnded) -> String {
    if let Some(error) = message.error.as_deref() {
        let error = one_line(error);
        return match message.reason {
            Some(reason) => format!("{reason}: {error}"),
            None => error,
        };
    }
    let told = match (message.outcome, message.reason) {
        (Outcome::Duplicate, _) => "done by an earlier delivery",
        (Outcome::Skipped, _) => "by a rule of the function",
        (Outcome::Completed, Some(Reason::Stale)) => "stale: a newer version is there",
        (_, Some(Reason::Group)) => "group: a message before it in its group is not done",
        (_, Some(Reason::Deadline)) => "deadline: there was no time left to start it",
        (_, Some(Reason::Store)) => "store: DynamoDB does not answer",
        (_, Some(reason)) => reason.as_str(),
        (_, None) => "",
    };
    told.to_owned()
}

fn comes_back(response: &Response, messages: usize) -> String {
    match response.unfinished {
        0 => "nothing comes back".to_owned(),
        1 => format!("1 of {messages} comes back"),
        n => format!("{n} of {messages} come back"),
    }
}

/// The file's name without its ending and its directory.
fn title(event: &str) -> String {
    let stem = Path::new(event).file_stem();
    let stem = stem.map(|stem| stem.to_string_lossy()).unwrap_or_default();
    cut(&one_line(&stem), WIDEST_EVENT)
}

/// A UUID by its first eight digits, which is enough to find it in a response; others as they are.
fn short(id: Option<&str>) -> String {
    let Some(id) = id else {
        return "(no id)".to_owned();
    };
    let is_uuid = id.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    match id.split_once('-') {
        Some((first, _)) if is_uuid => format!("{}…", one_line(first)),
        _ => cut(&one_line(id), ID),
    }
}

fn widest(texts: impl Iterator<Item = String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}
