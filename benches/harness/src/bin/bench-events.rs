//! Writes SQS events, one a line: `--batch` messages in each of `--events`.

use std::io::{BufWriter, Write as _};

use bench_harness::arguments::Arguments;
use bench_harness::events::event;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    let batch = arguments.number("batch", 10)?;
    let events = arguments.number("events", 1)?;
    let padding = arguments.number("padding", 0)?;
    let mut first = arguments.number("first", 0)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for _ in 0..events {
        writeln!(out, "{}", event(first, batch, padding))?;
        first += batch;
    }
    out.flush()?;
    Ok(())
}
