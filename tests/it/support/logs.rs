//! Keeps what the library says in its spans and events. The SDK's own lines are not its.
//!
//! One subscriber serves the whole process and hands on to the thread that listens. Subscribers of
//! single threads would lose lines: `tracing` may decide once for all that nobody listens to a line
//! while another test, which does not listen, is the first to say it.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::LazyLock;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    static KEPT: RefCell<Option<Vec<Line>>> = const { RefCell::new(None) };
}

/// Has to be there before the library says anything, in every test.
pub fn install() {
    static INSTALLED: LazyLock<()> =
        LazyLock::new(|| tracing::subscriber::set_global_default(Listener).unwrap());
    LazyLock::force(&INSTALLED);
}

/// What is said on this thread from its beginning to its end. (A test's runtime has one thread.)
pub struct Logs(());

#[derive(Debug)]
struct Line {
    /// Of an event. What a span is opened with, and what is recorded in it later, has none.
    level: Option<Level>,
    text: String,
}

impl Logs {
    pub fn listen() -> Self {
        install();
        KEPT.set(Some(Vec::new()));
        Self(())
    }

    /// Everything: spans, their fields and events, a line each.
    pub fn text(&self) -> String {
        self.lines(|line| Some(line.text.clone())).join("\n")
    }

    /// The levels of the events, in order.
    pub fn levels(&self) -> Vec<Level> {
        self.lines(|line| line.level)
    }

    fn lines<T>(&self, of: impl Fn(&Line) -> Option<T>) -> Vec<T> {
        KEPT.with_borrow(|kept| kept.iter().flatten().filter_map(of).collect())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        KEPT.set(None);
    }
}

fn keep(level: Option<Level>, record: impl FnOnce(&mut Fields)) {
    KEPT.with_borrow_mut(|kept| {
        if let Some(lines) = kept {
            let mut fields = Fields(String::new());
            record(&mut fields);
            let text = fields.0;
            lines.push(Line { level, text });
        }
    });
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lambda_idempotency")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        keep(None, |fields| span.record(fields));
        // Which span a field belongs to does not matter to what is looked for here.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        keep(None, |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        keep(Some(*event.metadata().level()), |fields| {
            event.record(fields)
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
