//! JSON lines: one for each message, one for each event, one at the end.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use lambda_idempotency::{Outcome, Reason};
use serde::Serialize;

use super::Printer;
use crate::count::Operations;
use crate::ledger::Ledger;
use crate::run::{Ended, Totals};

pub(super) struct Lines {
    out: io::Stdout,
}

#[derive(Serialize)]
struct MessageLine<'a> {
    event: &'a str,
    message_id: Option<&'a str>,
    outcome: Outcome,
    reason: Option<Reason>,
}

#[derive(Serialize)]
struct EventLine<'a> {
    event: &'a str,
    response: Option<&'a serde_json::Value>,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct LastLine<'a> {
    ledger: LedgerJson<'a>,
    requests: RequestsJson<'a>,
}

#[derive(Serialize)]
struct LedgerJson<'a> {
    accounts: &'a BTreeMap<String, i128>,
    payments: u64,
}

#[derive(Serialize)]
struct RequestsJson<'a> {
    messages: u64,
    total: u64,
    per_message: f64,
    by_operation: &'a Operations,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { out: io::stdout() }
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(line)?;
        writeln!(self.out, "{json}")
    }
}

impl Printer for Lines {
    fn start(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, ended: &Ended) -> io::Result<()> {
        let event = ended.event.as_str();
        for message in &ended.messages {
            self.line(&MessageLine {
                event,
                message_id: message.message_id.as_deref(),
                outcome: message.outcome,
                reason: message.reason,
            })?;
        }
        self.line(&EventLine {
            event,
            response: ended.answer.as_ref().ok().map(|response| &response.json),
            error: ended.answer.as_ref().err().map(String::as_str),
        })
    }

    fn end(&mut self, ledger: &Ledger, totals: &Totals) -> io::Result<()> {
        let all = totals.all();
        self.line(&LastLine {
            ledger: LedgerJson {
                accounts: &ledger.accounts,
                payments: ledger.payments,
            },
            requests: RequestsJson {
                messages: all.messages,
                total: all.requests,
                per_message: all.requests_per_message(),
                by_operation: &totals.operations,
            },
        })
    }
}
