//! What happened to each payment's messages, for the payments that turn out wrong.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::payments::Payment;

pub(crate) struct History {
    started: Instant,
    lines: Mutex<HashMap<usize, Vec<String>>>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            lines: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, payment: Payment, what: &str) {
        let line = format!("{:9.3} s  {what}", self.seconds());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.entry(payment.0).or_default().push(line);
    }

    pub(crate) fn of(&self, payment: Payment) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .get(&payment.0)
            .map_or_else(String::new, |lines| lines.join("\n"))
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
