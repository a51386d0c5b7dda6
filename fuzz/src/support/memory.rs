//! A store in memory that answers at once: the four requests as the trait describes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Fingerprint, Record, ReleaseAnswer,
    ReleaseRequest, Seen, Status, Store, StoreError,
};

#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<String, Record>,
    /// How often each item was put.
    pub(crate) effects: BTreeMap<String, u32>,
    /// The fingerprint of the last claim.
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Memory {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn holds(&self, request: &ReleaseRequest) -> bool {
        self.records.get(&request.record_id).is_some_and(|record| {
            record.status == Status::InProgress && record.token.as_ref() == Some(&request.token)
        })
    }

    fn seen(&self, record_id: &str) -> Seen {
        match self.records.get(record_id) {
            Some(record) => Seen::Record(record.clone()),
            None => Seen::Nothing,
        }
    }
}

impl Store for Memory {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        let mut state = self.state();
        state.fingerprint.clone_from(&request.fingerprint);
        if let Some(record) = state.records.get(&request.record_id) {
            let ended = record
                .expiration
                .is_some_and(|ends| ends < request.now_seconds);
            let lease_ended = record.status == Status::InProgress
                && record
                    .lease
                    .is_some_and(|lease| lease.as_millis() < request.now_millis);
            if !ended && !lease_ended {
                return ClaimAnswer::Refused(Seen::Record(record.clone()));
            }
        }
        let mut record = Record::new(Status::InProgress);
        record.token = Some(request.token.clone());
        record.lease = Some(request.lease);
        record.expiration = Some(request.expiration);
        record.fingerprint.clone_from(&request.fingerprint);
        state.records.insert(request.record_id.clone(), record);
        ClaimAnswer::Claimed
    }

    async fn commit(&self, request: &CommitRequest) -> CommitAnswer {
        let mut state = self.state();
        if let Some(completion) = &request.completion {
            let refused = state.seen(&completion.record_id);
            match state.records.get_mut(&completion.record_id) {
                Some(record)
                    if record.status == Status::InProgress
                        && record.token.as_ref() == Some(&completion.token) =>
                {
                    record.status = Status::Completed;
                    record.lease = None;
                    record.expiration = Some(completion.expiration);
                    record.data.clone_from(&completion.data);
                }
                _ => return CommitAnswer::RecordRefused(refused),
            }
        }
        for write in &request.writes {
            let put = write.action().put().expect("the handlers only put");
            let id = put.item().get("id").and_then(|id| id.as_s().ok());
            let id = id.expect("the handlers put an id").clone();
            *state.effects.entry(id).or_default() += 1;
        }
        CommitAnswer::Committed
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        let mut state = self.state();
        if state.holds(request) {
            state.records.remove(&request.record_id);
            return ReleaseAnswer::Released;
        }
        ReleaseAnswer::Refused(state.seen(&request.record_id))
    }

    async fn read(&self, record_id: &str) -> Result<Seen, StoreError> {
        Ok(self.state().seen(record_id))
    }
}
