//! A store in memory that answers at once: the four requests as the trait describes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, Fingerprint, GroupAnswer, GroupRequest,
    Record, ReleaseAnswer, ReleaseRequest, Seen, Status, Store, StoreError,
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
    fn seen(&self, record_id: &str) -> Seen {
        match self.records.get(record_id) {
            Some(record) => Seen::Record(record.clone()),
            None => Seen::Nothing,
        }
    }

    /// The record that refuses, if one does.
    fn refused(&self, commit: &CommitRequest) -> Option<CommitAnswer> {
        let completion = commit.completion.as_ref()?;
        let record = self.records.get(&completion.record_id);
        let refused = !completion.applies_to(record);
        refused.then(|| CommitAnswer::RecordRefused(self.seen(&completion.record_id)))
    }

    fn apply(&mut self, commit: &CommitRequest) {
        if let Some(completion) = &commit.completion {
            let mut record = Record::new(Status::Completed);
            record.token = Some(completion.token.clone());
            record.expiration = Some(completion.expiration);
            record.data.clone_from(&completion.data);
            record.fingerprint.clone_from(&completion.fingerprint);
            self.records.insert(completion.record_id.clone(), record);
        }
        for write in &commit.writes {
            let put = write.action().put().expect("the handlers only put");
            let id = put.item().get("id").and_then(|id| id.as_s().ok());
            let id = id.expect("the handlers put an id").clone();
            *self.effects.entry(id).or_default() += 1;
        }
    }
}

impl Store for Memory {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        let mut state = self.state();
        state.fingerprint.clone_from(&request.fingerprint);
        if !request.applies_to(state.records.get(&request.record_id)) {
            return ClaimAnswer::Refused(state.seen(&request.record_id));
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
        if let Some(refused) = state.refused(request) {
            return refused;
        }
        state.apply(request);
        CommitAnswer::Committed
    }

    async fn commit_group(&self, request: &GroupRequest) -> GroupAnswer {
        let mut state = self.state();
        let commits = request.commits.iter();
        let refused: Vec<_> = commits.map(|commit| state.refused(commit)).collect();
        if refused.iter().any(Option::is_some) {
            return GroupAnswer::Cancelled(refused);
        }
        request
            .commits
            .iter()
            .for_each(|commit| state.apply(commit));
        GroupAnswer::Committed
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        let mut state = self.state();
        if !request.applies_to(state.records.get(&request.record_id)) {
            return ReleaseAnswer::Refused(state.seen(&request.record_id));
        }
        state.records.remove(&request.record_id);
        ReleaseAnswer::Released
    }

    async fn read(&self, record_id: &str) -> Result<Seen, StoreError> {
        Ok(self.state().seen(record_id))
    }
}
