//! Each wrong protocol is caught, by the invariant that it breaks.

use crate::check::{breaks, holds};
use crate::invariants::{
    ACKNOWLEDGED_IS_DONE, BOTH_OR_NEITHER, COMPLETES, FENCED, ISOLATED, ONE_COMMIT, ONE_HANDLER,
    REPORTED_ONCE,
};
use crate::mutation::Mutation;
use crate::protocol::{Checked, Protocol};
use crate::state::{Mode, Payload};

fn claims_first(mutation: Mutation) -> Protocol {
    Protocol::one_key(3).mutated(mutation)
}

fn claims_at_commit(mutation: Mutation) -> Protocol {
    let mut protocol = Protocol::one_key(3);
    protocol.modes = vec![Mode::AtCommit];
    protocol.mutated(mutation)
}

fn group(mutation: Mutation) -> Protocol {
    Protocol::group(2).mutated(mutation)
}

#[test]
fn a_commit_without_the_status_takes_effect_twice() {
    breaks(ONE_COMMIT, claims_first(Mutation::CommitWithoutStatus));
}

#[test]
fn a_commit_without_the_token_lets_a_stale_attempt_decide() {
    breaks(FENCED, claims_first(Mutation::CommitWithoutToken));
}

/// The token is there for fencing alone: this is what the status is for.
#[test]
fn a_commit_without_the_token_still_takes_effect_once() {
    let mut protocol = Protocol::one_key(2).mutated(Mutation::CommitWithoutToken);
    protocol.checked = Checked::InvariantsBut(FENCED);
    holds("CommitWithoutToken, all but invariant 4", protocol);
}

#[test]
fn a_marker_apart_from_its_writes_is_seen_alone() {
    breaks(BOTH_OR_NEITHER, claims_first(Mutation::MarkerApart));
}

#[test]
fn a_marker_apart_from_its_writes_lets_them_be_applied_twice() {
    breaks(ONE_COMMIT, claims_first(Mutation::MarkerApart));
}

#[test]
fn a_release_without_a_condition_deletes_what_others_hold() {
    breaks(FENCED, claims_first(Mutation::ReleaseWithoutCondition));
    breaks(ONE_COMMIT, claims_first(Mutation::ReleaseWithoutCondition));
}

#[test]
fn a_release_by_token_only_deletes_a_completed_record() {
    breaks(BOTH_OR_NEITHER, claims_first(Mutation::ReleaseByTokenOnly));
    breaks(ONE_COMMIT, claims_first(Mutation::ReleaseByTokenOnly));
}

#[test]
fn a_takeover_of_a_living_lease_runs_two_handlers() {
    breaks(ONE_HANDLER, claims_first(Mutation::TakeoverOfLivingLease));
}

#[test]
fn a_put_without_a_condition_takes_effect_twice() {
    breaks(ONE_COMMIT, claims_at_commit(Mutation::PutWithoutCondition));
    breaks(ONE_COMMIT, group(Mutation::PutWithoutCondition));
}

#[test]
fn a_message_in_progress_must_not_be_acknowledged() {
    breaks(
        ACKNOWLEDGED_IS_DONE,
        claims_first(Mutation::AcknowledgeInProgress),
    );
}

#[test]
fn a_lost_lease_must_not_be_acknowledged() {
    breaks(
        ACKNOWLEDGED_IS_DONE,
        claims_first(Mutation::AcknowledgeLostLease),
    );
}

#[test]
fn an_unknown_outcome_must_not_be_acknowledged() {
    breaks(
        ACKNOWLEDGED_IS_DONE,
        claims_first(Mutation::AcknowledgeUnknown),
    );
    breaks(
        ACKNOWLEDGED_IS_DONE,
        claims_at_commit(Mutation::AcknowledgeUnknown),
    );
    breaks(
        ACKNOWLEDGED_IS_DONE,
        group(Mutation::GroupAcknowledgesUnknown),
    );
}

#[test]
fn another_payload_must_not_be_acknowledged() {
    let mut protocol = claims_first(Mutation::AcknowledgeMismatch);
    protocol.payloads = vec![Payload::Original, Payload::Other];
    breaks(ACKNOWLEDGED_IS_DONE, protocol);
}

#[test]
fn a_group_that_is_refused_must_not_be_acknowledged() {
    breaks(ACKNOWLEDGED_IS_DONE, group(Mutation::GroupAcknowledgesAll));
}

#[test]
fn a_group_that_is_refused_must_not_fail_all() {
    breaks(ISOLATED, group(Mutation::GroupFailsAll));
}

#[test]
fn a_response_names_what_is_not_done_and_names_it_once() {
    breaks(REPORTED_ONCE, group(Mutation::ResponseForgets));
    breaks(ACKNOWLEDGED_IS_DONE, group(Mutation::ResponseForgets));
    breaks(REPORTED_ONCE, group(Mutation::ResponseRepeats));
}

#[test]
fn a_claim_without_a_lease_is_never_completed() {
    let mut protocol = Protocol::one_key(2).mutated(Mutation::ClaimWithoutLease);
    protocol.checked = Checked::Liveness;
    breaks(COMPLETES, protocol);
}
