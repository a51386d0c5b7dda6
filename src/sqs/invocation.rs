//! What the messages of one invocation share, and the response that comes of them.

use std::sync::{Mutex, PoisonError};

use aws_lambda_events::sqs::SqsBatchResponse;

use super::batch::{Gate, KeyTurns};
use crate::engine::Times;
use crate::error::{Error, ErrorKind};

/// What the messages of one invocation share.
pub(super) struct Invocation {
    pub(super) times: Times,
    pub(super) gate: Gate,
    pub(super) key_turns: KeyTurns,
    unfinished: Mutex<Unfinished>,
}

#[derive(Default)]
struct Unfinished {
    ids: Vec<String>,
    without_id: usize,
}

impl Invocation {
    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            gate: Gate::new(times),
            key_turns: KeyTurns::default(),
            unfinished: Mutex::default(),
        }
    }

    /// Notes a message that is not acknowledged.
    pub(super) fn report(&self, message_id: Option<String>) {
        let mut unfinished = self
            .unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match message_id {
            Some(id) => unfinished.ids.push(id),
            None => unfinished.without_id += 1,
        }
    }

    /// Every message that is not acknowledged, once, by its own id.
    pub(super) fn response(self) -> Result<SqsBatchResponse, Error> {
        let unfinished = self
            .unfinished
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if unfinished.without_id > 0 {
            return Err(Error::new(
                ErrorKind::Event,
                format!(
                    "{} of the messages that are not done have no `messageId`, so they can't be \
                     reported one by one: the whole batch fails and comes back; messages that are \
                     done will be duplicates then",
                    unfinished.without_id
                ),
            ));
        }
        let mut ids = unfinished.ids;
        // A message that is in the batch twice is reported once.
        ids.sort_unstable();
        ids.dedup();
        let mut response = SqsBatchResponse::default();
        response.set_failures(ids);
        Ok(response)
    }
}
