//! A `tracing` subscriber that keeps what the library says. The SDK's own lines are not its.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

#[derive(Clone, Default)]
pub struct Logs(Arc<State>);

#[derive(Default)]
struct State {
    spans: AtomicU64,
    lines: Mutex<Vec<Line>>,
}

#[derive(Clone, Debug)]
struct Line {
    /// Of an event. What a span is opened with, and what is recorded in it later, has none.
    level: Option<Level>,
    text: String,
}

impl Logs {
    /// Keeps what is said on this thread until the guard is dropped. (A test's runtime has one.)
    pub fn listen() -> (Self, DefaultGuard) {
        let logs = Self::default();
        let guard = tracing::subscriber::set_default(logs.clone());
        (logs, guard)
    }

    /// Everything: spans, their fields and events, a line each.
    pub fn text(&self) -> String {
        let lines = self.0.lines.lock().unwrap();
        lines.iter().fold(String::new(), |mut text, line| {
            writeln!(text, "{}", line.text).unwrap();
            text
        })
    }

    /// The levels of the events, in order.
    pub fn levels(&self) -> Vec<Level> {
        let lines = self.0.lines.lock().unwrap();
        lines.iter().filter_map(|line| line.level).collect()
    }

    fn keep(&self, level: Option<Level>, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(String::new());
        record(&mut fields);
        let text = fields.0;
        self.0.lines.lock().unwrap().push(Line { level, text });
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lambda_idempotency")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.keep(None, |fields| span.record(fields));
        Id::from_u64(self.0.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.keep(None, |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.keep(Some(*event.metadata().level()), |fields| {
            event.record(fields)
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
