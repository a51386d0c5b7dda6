//! A process whose clock is far ahead: it takes a key right after another one has, whatever the lease
//! says, and then dies, or gives it back.

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, FencingToken, Lease, Moment, ReleaseRequest,
};

use crate::clock::START;
use crate::conduct::Sender;
use crate::memory::{Answer, Request};
use crate::wire::Landing;
use crate::world::{Event, MILLI, MINUTE, SECOND, World};

/// Is none of the workers.
const RIVAL: Sender = Sender {
    worker: usize::MAX,
    invocation: 0,
};

/// After a claim has landed: perhaps the rival comes.
pub fn may_come(world: &mut World, request: &Request, answer: &Answer) {
    let (Request::Claim(claim), Answer::Claim(ClaimAnswer::Claimed)) = (request, answer) else {
        return;
    };
    let chance = world.setup.rivals;
    // It has no rival of its own.
    let is_rival = claim.token.as_str().starts_with("rival");
    if is_rival || world.faults_ended || !world.rng.percent(chance) {
        return;
    }
    let soon = world.rng.pick(&[20 * MILLI, 200 * MILLI, 5 * SECOND]);
    let comes = world.rng.between(MILLI, soon);
    let longest = world.rng.pick(&[200 * MILLI, MINUTE]);
    let stays = world.rng.between(MILLI, longest);
    let number = world.rng.next();
    let token = FencingToken::new(format!("rival-{number}"));
    let true_millis = START * 1_000 + (world.now + comes) / MILLI;
    let ahead = claim.lease.as_millis().max(true_millis) + 1;
    let now = Moment {
        seconds: ahead / 1_000,
        millis: ahead,
    };
    let lease = Lease::until_millis(true_millis + stays / MILLI);
    let record_id = claim.record_id.clone();
    let mut taking = ClaimRequest::new(
        record_id.clone(),
        token.clone(),
        lease,
        claim.expiration,
        now,
    );
    taking.fingerprint.clone_from(&claim.fingerprint);
    let taking = Landing::unasked(Request::Claim(taking), RIVAL);
    world.in_time(comes, Event::Land(taking));
    if world.rng.percent(50) {
        let release = ReleaseRequest::new(record_id, token);
        let release = Landing::unasked(Request::Release(release), RIVAL);
        let leaves = comes + world.rng.between(MILLI, stays);
        world.in_time(leaves, Event::Land(release));
    }
}
