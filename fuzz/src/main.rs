//! Drives the targets on any toolchain: mutates the corpus by a seed, for a time.
//!
//! ```text
//! fuzz [TARGET|all] [--seconds N] [--seed N] [--json]
//! fuzz TARGET --file PATH       replays one input
//! ```

mod driver;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use driver::{Driver, Summary};
use fuzz::{TARGETS, Target};

const USAGE: &str = "usage: fuzz [TARGET|all] [--seconds N] [--seed N] [--json]\n       \
     fuzz TARGET --file PATH";

struct Arguments {
    targets: Vec<(&'static str, Target)>,
    seconds: u64,
    seed: u64,
    json: bool,
    file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match read_arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(path) = &arguments.file {
        return replay(&arguments, path);
    }
    let time = Duration::from_secs(arguments.seconds) / arguments.targets.len().max(1) as u32;
    let mut summaries = Vec::new();
    for (name, target) in &arguments.targets {
        let driver = Driver::new(name, *target, arguments.seed);
        match driver.run(time) {
            Ok(summary) => summaries.push(summary),
            Err(found) => {
                eprintln!("{found}");
                return ExitCode::FAILURE;
            }
        }
    }
    print(&summaries, arguments.seed, arguments.json);
    ExitCode::SUCCESS
}

fn read_arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        targets: TARGETS.to_vec(),
        seconds: 60,
        seed: fastrand::u64(..),
        json: false,
        file: None,
    };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text:?} is no number"));
        match argument.as_str() {
            "--seconds" => arguments.seconds = number(value()?)?,
            "--seed" => arguments.seed = number(value()?)?,
            "--file" => arguments.file = Some(value()?.into()),
            "--json" => arguments.json = true,
            "all" => arguments.targets = TARGETS.to_vec(),
            name => match TARGETS.iter().find(|(target, _)| *target == name) {
                Some(target) => arguments.targets = vec![*target],
                None => {
                    let names = TARGETS.map(|(name, _)| name).join(", ");
                    return Err(format!("there is no target {name:?}; there are {names}"));
                }
            },
        }
    }
    Ok(arguments)
}

fn replay(arguments: &Arguments, path: &PathBuf) -> ExitCode {
    let [(name, target)] = arguments.targets.as_slice() else {
        eprintln!("of which target is the file?\n{USAGE}");
        return ExitCode::from(2);
    };
    match std::fs::read(path) {
        Ok(data) => {
            target(&data);
            println!("{name} holds for {}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

fn print(summaries: &[Summary], seed: u64, json: bool) {
    let total: u64 = summaries.iter().map(|summary| summary.executions).sum();
    if json {
        let targets: serde_json::Map<_, _> = summaries
            .iter()
            .map(|summary| (summary.name.to_owned(), summary.executions.into()))
            .collect();
        println!(
            "{}",
            serde_json::json!({ "seed": seed, "executions": targets, "total": total, "found": 0 })
        );
        return;
    }
    println!(
        "{:<12} {:>12} {:>8} {:>7}",
        "target", "executions", "corpus", "found"
    );
    for summary in summaries {
        println!(
            "{:<12} {:>12} {:>8} {:>7}",
            summary.name, summary.executions, summary.corpus, 0
        );
    }
    println!("{:<12} {:>12}   seed {seed}", "all", total);
}
