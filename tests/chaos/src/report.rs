//! What is told: progress, what is wrong, and the JSON line at the end.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::faults::Act;
use crate::ledger::Findings;
use crate::mapping::Mapping;
use crate::payments::{Payment, Producer};
use crate::proxy::Network;
use crate::store::Store;

/// So many wrong payments are told in full.
const TOLD: usize = 5;

pub(crate) struct Run<'a> {
    pub(crate) seed: u64,
    pub(crate) producer: &'a Producer,
    pub(crate) mapping: &'a Mapping,
    pub(crate) network: &'a Network,
    pub(crate) store: &'a Store,
    pub(crate) dead_lettered: usize,
}

impl Run<'_> {
    pub(crate) fn progress(&self) {
        let sent = self.producer.sent();
        let (kills, stalls) = self.faults();
        eprintln!(
            "{:5.0} s: {} of {sent} messages done, {kills} kills, {stalls} stalls, {} cuts, {} store \
             restarts",
            self.mapping.history.seconds(),
            sent - self.mapping.queue().waiting(),
            self.network.cuts(),
            self.store.restarts(),
        );
    }

    pub(crate) fn wrong(&self, findings: &Findings) {
        let tell = |what: &str, payments: &[Payment]| {
            for payment in payments.iter().take(TOLD) {
                let (id, history) = (payment.id(), self.mapping.history.of(*payment));
                eprintln!("{what}: {id} of {}\n{history}", payment.account());
            }
        };
        tell("lost", &findings.lost);
        tell("doubled", &findings.doubled);
        for wrong in findings.wrong.iter().take(TOLD) {
            eprintln!("wrong: {wrong}");
        }
    }

    pub(crate) fn json(&self, findings: &Findings) -> String {
        let (kills, stalls) = self.faults();
        let counts = &self.mapping.counts;
        json!({
            "messages": self.producer.sent(),
            "payments": self.producer.payments().count(),
            "duplicates": self.producer.duplicates(),
            "deliveries": self.mapping.queue().deliveries(),
            "kills": kills,
            "stalls": stalls,
            "takeovers": counts.takeovers.load(Ordering::Relaxed),
            "cuts": self.network.cuts(),
            "late": self.network.late(),
            "store_restarts": self.store.restarts(),
            "timed_out": counts.timed_out.load(Ordering::Relaxed),
            "exits": counts.exits.load(Ordering::Relaxed),
            "errors": counts.errors.load(Ordering::Relaxed),
            "dead_lettered": self.dead_lettered,
            "in_progress": findings.in_progress,
            "applied": findings.applied,
            "lost": findings.lost.len(),
            "doubled": findings.doubled.len(),
            "wrong": findings.wrong.len(),
            "seed": self.seed,
            "seconds": self.mapping.history.seconds().round() as u64,
        })
        .to_string()
    }

    fn faults(&self) -> (usize, usize) {
        let faults = &self.mapping.faults;
        (faults.count(Act::Kill), faults.count(Act::Stall))
    }
}
