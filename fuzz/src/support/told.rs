//! What the observer is told of each message, to be looked at afterwards.

use std::sync::{Arc, Mutex};

use lambda_idempotency::store::Store;
use lambda_idempotency::{Idempotency, IdempotencyBuilder, Outcome, Reason, Report};

use super::{CONSUMER, ManualClock};

/// What was told of one message.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) position: usize,
    pub(crate) message_id: Option<String>,
    pub(crate) record_id: Option<String>,
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<Reason>,
    /// The error with all its causes.
    pub(crate) error: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) requests: u32,
}

/// Keeps what is told.
#[derive(Clone, Default)]
pub(crate) struct Tells(Arc<Mutex<Vec<Told>>>);

impl Tells {
    /// A builder on this store and clock, that tells this.
    pub(crate) fn builder(&self, store: impl Store, clock: &ManualClock) -> IdempotencyBuilder {
        let tells = self.clone();
        Idempotency::builder(store)
            .consumer(CONSUMER)
            .clock(clock.clone())
            .observer(move |report: &Report| {
                // Whatever is logged must be printable too.
                std::hint::black_box(format!("{report:?}"));
                tells.0.lock().unwrap().push(Told {
                    position: report.position.expect("a message has a place in its batch"),
                    message_id: report.message_id.clone(),
                    record_id: report.record_id.as_deref().map(str::to_owned),
                    outcome: report.outcome,
                    reason: report.reason,
                    error: report.error.as_ref().map(|error| format!("{error:#}")),
                    result: report.result.clone(),
                    requests: report.requests,
                });
            })
    }

    /// What was told since the last call of this, in the order of the batch. Each message has to be
    /// told of once.
    pub(crate) fn take(&self, messages: usize) -> Vec<Told> {
        let mut told = std::mem::take(&mut *self.0.lock().unwrap());
        told.sort_by_key(|told| told.position);
        let positions: Vec<usize> = told.iter().map(|told| told.position).collect();
        let every_one: Vec<usize> = (0..messages).collect();
        assert_eq!(positions, every_one, "each message is told of once");
        for told in &told {
            assert_eq!(
                told.error.is_some(),
                matches!(told.outcome, Outcome::Failed | Outcome::InProgress),
                "{told:?}"
            );
        }
        told
    }
}
