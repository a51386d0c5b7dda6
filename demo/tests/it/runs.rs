//! One run of the demo, and what it said.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// The demo, free of what the environment of the test may say.
pub(crate) fn demo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.args(arguments);
    for name in ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_PROFILE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn output(mut command: Command) -> Output {
    command.output().expect("the demo starts")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// An event of `events/`, by the number that its name begins with.
pub(crate) fn event(number: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../events");
    std::fs::read_dir(directory)
        .expect("the events")
        .map(|entry| entry.expect("an event").path())
        .find(|path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with(number))
        })
        .expect("an event of this number")
}

/// The lines of a run with `--json`.
pub(crate) struct Lines {
    lines: Vec<Value>,
}

impl Lines {
    /// Runs the demo with `--json` and expects it to do its work.
    pub(crate) fn of(mut command: Command) -> Self {
        command.arg("--json");
        let output = output(command);
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = stdout(&output)
            .lines()
            .map(|line| serde_json::from_str(line).expect("every line is JSON"))
            .collect();
        Self { lines }
    }

    /// `outcome`, or `outcome reason`, of each message of an event, in order.
    pub(crate) fn outcomes(&self, event: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.about(event)
            .filter_map(|line| {
                let outcome = text(&line["outcome"])?;
                let reason = text(&line["reason"]);
                Some(reason.map_or(outcome.clone(), |reason| format!("{outcome} {reason}")))
            })
            .collect()
    }

    /// The ids of the messages of an event, in order.
    pub(crate) fn message_ids(&self, event: &str) -> Vec<Value> {
        self.about(event)
            .filter_map(|line| line.get("message_id").cloned())
            .collect()
    }

    /// The line with the response of an event.
    pub(crate) fn answer(&self, event: &str) -> &Value {
        self.about(event)
            .find(|line| line.get("response").is_some())
            .expect("a line with the response")
    }

    pub(crate) fn all_outcomes(&self) -> Vec<&str> {
        let outcomes = self.lines.iter().map(|line| line["outcome"].as_str());
        outcomes.flatten().collect()
    }

    pub(crate) fn ledger(&self) -> &Value {
        &self.last()["ledger"]
    }

    pub(crate) fn requests(&self) -> &Value {
        &self.last()["requests"]
    }

    fn last(&self) -> &Value {
        self.lines.last().expect("a last line")
    }

    fn about(&self, event: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| {
            line["event"]
                .as_str()
                .is_some_and(|name| name.ends_with(event))
        })
    }
}
