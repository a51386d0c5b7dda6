//! Colours, where there is a terminal that shows them.

use std::io::IsTerminal as _;

use lambda_idempotency::Outcome;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

#[derive(Clone, Copy)]
pub(super) struct Style {
    is_coloured: bool,
}

impl Style {
    pub(super) fn of_stdout() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            is_coloured: std::io::stdout().is_terminal() && !is_unwanted,
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.in_colour(BOLD, text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.in_colour(DIM, text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.in_colour(RED, text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.in_colour(GREEN, text)
    }

    pub(super) fn outcome(self, outcome: Outcome, text: &str) -> String {
        let colour = match outcome {
            Outcome::Completed => GREEN,
            Outcome::Duplicate | Outcome::Skipped => CYAN,
            Outcome::Failed => RED,
            _ => YELLOW,
        };
        self.in_colour(colour, text)
    }

    fn in_colour(self, colour: &str, text: &str) -> String {
        if self.is_coloured && !text.is_empty() {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
