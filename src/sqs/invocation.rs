//! What the messages of one invocation share, and the response that comes of them.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use aws_lambda_events::sqs::SqsBatchResponse;

use super::batch::{Gate, KeyTurns};
use crate::claim::Claim;
use crate::engine::{Groups, Times};
use crate::error::{Error, ErrorKind};

/// What the messages of one invocation share.
pub(super) struct Invocation {
    pub(super) times: Times,
    pub(super) gate: Gate,
    pub(super) key_turns: KeyTurns,
    /// Where the commits go together, if they do.
    pub(super) groups: Option<Groups>,
    /// The ids of the messages that are not acknowledged, by their place in the batch.
    unfinished: Mutex<BTreeMap<usize, Option<String>>>,
}

impl Invocation {
    pub(super) fn new(times: Times, groups: Option<Groups>) -> Self {
        Self {
            times,
            gate: Gate::new(times),
            key_turns: KeyTurns::default(),
            groups,
            unfinished: Mutex::default(),
        }
    }

    /// Commits that go together take their keys in the transaction that they share.
    pub(super) fn claim(&self, configured: Claim) -> Claim {
        match self.groups {
            Some(_) => Claim::AtCommit,
            None => configured,
        }
    }

    /// Notes a message that is not acknowledged.
    pub(super) fn report(&self, position: usize, message_id: Option<String>) {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(position, message_id);
    }

    /// Every message that is not acknowledged, once, by its own id, in the order of the batch.
    pub(super) fn response(self) -> Result<SqsBatchResponse, Error> {
        let unfinished = self
            .unfinished
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let messages = unfinished.len();
        let mut ids: Vec<String> = unfinished.into_values().flatten().collect();
        let without_id = messages - ids.len();
        if without_id > 0 {
            return Err(Error::new(
                ErrorKind::Event,
                format!(
                    "{without_id} of the messages that are not done have no `messageId`, so they \
                     can't be reported one by one: the whole batch fails and comes back; messages \
                     that are done will be duplicates then"
                ),
            ));
        }
        // A message that is in the batch twice is reported once.
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        let mut response = SqsBatchResponse::default();
        response.set_failures(ids);
        Ok(response)
    }
}
