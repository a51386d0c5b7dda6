//! Group commit: the commits of several messages of one batch in one transaction.
//!
//! Each attempt hands its commit in and waits; one driver, polled beside the batch, sends them
//! together and gives each attempt the answer that it would have got alone.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{mpsc, oneshot};

use super::Engine;
use super::requests::NO_ANSWER;
use super::times::{Backoff, Times, left};
use crate::error::Chain;
use crate::items::{self, ItemId};
use crate::limits;
use crate::record::FencingToken;
use crate::store::{CommitAnswer, CommitRequest, Failure, GroupAnswer, GroupRequest, StoreError};

/// How often the rest of a cancelled group is sent as a group again, before each commit goes alone.
const MOST_ROUNDS: u32 = 3;

/// Where the attempts of one batch hand in their commits.
pub(crate) struct Groups {
    events: mpsc::UnboundedSender<Event>,
    may_come: Arc<AtomicUsize>,
}

/// An attempt that may still hand in a commit. While there is one, commits wait for it: for as long
/// as they linger, and no longer than that.
pub(super) struct Expected<'g> {
    groups: &'g Groups,
}

/// The answer to a commit that was handed in, and how many requests to count for it: those that
/// served several messages are counted on one of them.
pub(super) struct Answered {
    pub(super) answer: CommitAnswer,
    pub(super) requests: u32,
    /// A group that it was in may still land, whatever the answer says.
    pub(super) may_land: bool,
}

/// Sends what is handed in. Polled beside the batch, it ends with it.
pub(crate) struct Driver<'e> {
    engine: &'e Engine,
    times: Times,
    linger: Duration,
    events: mpsc::UnboundedReceiver<Event>,
    may_come: Arc<AtomicUsize>,
}

/// What was sent of a group so far.
#[derive(Clone, Copy, Default)]
struct SentGroups {
    /// Requests that no answer counts yet.
    requests: u32,
    /// A try had no answer that says what came of it.
    may_land: bool,
}

enum Event {
    HandedIn(Waiting),
    /// One attempt less may come.
    Left,
}

struct Waiting {
    commit: Arc<CommitRequest>,
    reply: oneshot::Sender<Answered>,
}

impl Waiting {
    fn answer(self, answer: CommitAnswer, sent: &mut SentGroups) {
        // An attempt that is gone needs no answer.
        let _ = self.reply.send(Answered {
            answer,
            requests: std::mem::take(&mut sent.requests),
            may_land: sent.may_land,
        });
    }
}

impl Groups {
    pub(super) fn expect_one(&self) -> Expected<'_> {
        self.may_come.fetch_add(1, Ordering::Relaxed);
        Expected { groups: self }
    }
}

impl Expected<'_> {
    /// Hands the commit in; `None` if nobody sends it.
    pub(super) async fn hand_in(self, commit: Arc<CommitRequest>) -> Option<Answered> {
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { commit, reply };
        self.groups.events.send(Event::HandedIn(waiting)).ok()?;
        // From here on it is waited for no more.
        drop(self);
        answer.await.ok()
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.groups.may_come.fetch_sub(1, Ordering::Relaxed);
        // Without a driver there is nobody to tell.
        let _ = self.groups.events.send(Event::Left);
    }
}

impl Engine {
    /// Groups for one batch, and what has to be polled beside it.
    pub(crate) fn groups(&self, times: Times, linger: Duration) -> (Groups, Driver<'_>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let may_come = Arc::new(AtomicUsize::new(0));
        let groups = Groups {
            events: sender,
            may_come: Arc::clone(&may_come),
        };
        let driver = Driver {
            engine: self,
            times,
            linger,
            events: receiver,
            may_come,
        };
        (groups, driver)
    }
}

impl<'e> Driver<'e> {
    /// Never completes: it is dropped when the batch is done.
    pub(crate) async fn run(self) {
        let Self {
            engine,
            times,
            linger,
            mut events,
            may_come,
        } = self;
        let mut waiting = Vec::new();
        let mut under_way = FuturesUnordered::new();
        let mut lingering = None;
        poll_fn(|cx| {
            while let Poll::Ready(Some(event)) = events.poll_recv(cx) {
                if let Event::HandedIn(commit) = event {
                    waiting.push(commit);
                }
            }
            if !waiting.is_empty() {
                let timer = lingering.get_or_insert_with(|| {
                    let time = left(times.commit_until(engine.clock.now()), engine.clock.now());
                    // Who waits is there for `retry_for`: most of it is for the commit.
                    let time = time.min(engine.retry_for);
                    engine.clock.sleep(linger.min(time / 10))
                });
                let nobody_comes = may_come.load(Ordering::Relaxed) == 0;
                if nobody_comes || is_over(timer, cx) {
                    lingering = None;
                    for group in packed(std::mem::take(&mut waiting), engine) {
                        under_way.push(engine.decide_group(group, times).boxed());
                    }
                }
            }
            while let Poll::Ready(Some(())) = under_way.poll_next_unpin(cx) {}
            Poll::<()>::Pending
        })
        .await;
    }
}

fn is_over(timer: &mut Pin<Box<dyn Future<Output = ()> + Send>>, cx: &mut Context<'_>) -> bool {
    timer.poll_unpin(cx).is_ready()
}

/// Packs commits into as few transactions as hold them, in their order.
///
/// A transaction has at most 100 actions and 4 MB, and no item twice. A commit of which an item is
/// not known goes alone.
fn packed(waiting: Vec<Waiting>, engine: &Engine) -> Vec<Vec<Waiting>> {
    let mut plans: Vec<Plan<'_>> = Vec::new();
    let mut plan_of = Vec::with_capacity(waiting.len());
    for commit in waiting.iter().map(|waiting| &waiting.commit) {
        let size = Size::of(commit);
        let touched: Option<Vec<ItemId<'_>>> =
            items::touched(&commit.writes, &engine.key_attributes)
                .into_iter()
                .collect();
        let fitting = touched.as_ref().and_then(|touched| {
            plans
                .iter()
                .position(|plan| plan.has_room_for(&size, touched))
        });
        let at = fitting.unwrap_or_else(|| {
            plans.push(Plan::default());
            plans.len() - 1
        });
        if let Some(plan) = plans.get_mut(at) {
            plan.add(&size, touched);
        }
        plan_of.push(at);
    }
    let mut groups: Vec<Vec<Waiting>> = plans.iter().map(|_| Vec::new()).collect();
    drop(plans);
    for (waiting, at) in waiting.into_iter().zip(plan_of) {
        if let Some(group) = groups.get_mut(at) {
            group.push(waiting);
        }
    }
    groups
}

/// What a commit takes of a transaction.
#[derive(Clone, Copy, Default)]
struct Size {
    actions: usize,
    bytes: usize,
}

impl Size {
    fn of(commit: &CommitRequest) -> Self {
        let result = commit.completion.as_ref().and_then(|c| c.data.as_ref());
        Self {
            actions: 1 + commit.writes.len(),
            bytes: limits::RECORD_OVERHEAD_BYTES
                + result.map_or(0, String::len)
                + limits::bytes_of(&commit.writes),
        }
    }
}

/// A transaction that is being packed.
#[derive(Default)]
struct Plan<'a> {
    size: Size,
    /// Few enough to be looked through: a transaction has at most 100 actions.
    items: Vec<ItemId<'a>>,
    is_closed: bool,
}

impl<'a> Plan<'a> {
    fn has_room_for(&self, size: &Size, touched: &[ItemId<'a>]) -> bool {
        !self.is_closed
            && self.size.actions + size.actions <= limits::MAX_ACTIONS
            && self.size.bytes + size.bytes <= limits::MAX_TRANSACTION_BYTES
            && !touched.iter().any(|item| self.items.contains(item))
    }

    fn add(&mut self, size: &Size, touched: Option<Vec<ItemId<'a>>>) {
        self.size.actions += size.actions;
        self.size.bytes += size.bytes;
        match touched {
            Some(touched) => self.items.extend(touched),
            None => self.is_closed = true,
        }
    }
}

impl Engine {
    /// Sends a group until each of its commits has its answer.
    async fn decide_group(&self, mut group: Vec<Waiting>, times: Times) {
        let mut sent = SentGroups::default();
        let now = self.clock.now();
        let until = times.commit_until(now);
        let until = now
            .checked_add(self.retry_for)
            .map_or(until, |end| end.min(until));
        for _ in 0..MOST_ROUNDS {
            // Whose attempt has run out of time is not sent any more.
            group.retain(|waiting| !waiting.reply.is_closed());
            if group.len() < 2 || left(until, self.clock.now()).is_zero() {
                break;
            }
            let commits = group.iter().map(|waiting| Arc::clone(&waiting.commit));
            let request = GroupRequest {
                client_token: FencingToken::random().as_str().to_owned(),
                commits: commits.collect(),
            };
            match self.send_group(&request, until, &mut sent).await {
                GroupAnswer::Committed => {
                    return answer_all(group, &mut sent, || CommitAnswer::Committed);
                }
                GroupAnswer::Failed(error) => {
                    let failure = error.failure();
                    let said = Chain(&error).to_string();
                    return answer_all(group, &mut sent, || {
                        CommitAnswer::Failed(StoreError::new(failure, said.clone()))
                    });
                }
                GroupAnswer::Undecided(_) => break,
                GroupAnswer::Cancelled(answers) => {
                    let mut rest = Vec::new();
                    let mut answers = answers.into_iter();
                    for waiting in group {
                        match answers.next().flatten() {
                            Some(answer) => waiting.answer(answer, &mut sent),
                            None => rest.push(waiting),
                        }
                    }
                    group = rest;
                }
            }
        }
        // One bad commit must not fail the others: each is decided by its own transaction.
        let alone = group.into_iter().map(|mut waiting| {
            let mut sent = SentGroups {
                requests: 1 + std::mem::take(&mut sent.requests),
                may_land: sent.may_land,
            };
            async move {
                let commit = Arc::clone(&waiting.commit);
                // As where it commits without others, it is not sent, or waited for, any more once
                // its attempt has run out of time.
                let answered = {
                    let nobody_waits = pin!(waiting.reply.closed());
                    match select(nobody_waits, self.store.commit(&commit)).await {
                        Either::Left(_) => None,
                        Either::Right((answer, _)) => Some(answer),
                    }
                };
                if let Some(answer) = answered {
                    waiting.answer(answer, &mut sent);
                }
            }
        });
        alone.collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    /// Sends one and the same group until its answer is known or the time is up.
    async fn send_group(
        &self,
        request: &GroupRequest,
        until: SystemTime,
        so_far: &mut SentGroups,
    ) -> GroupAnswer {
        let mut backoff = Backoff::new();
        loop {
            let time = left(until, self.clock.now());
            so_far.requests += 1;
            let sent = select(self.store.commit_group(request), self.clock.sleep(time)).await;
            let Either::Left((answer, _)) = sent else {
                so_far.may_land = true;
                return GroupAnswer::Failed(StoreError::unknown(NO_ANSWER));
            };
            let GroupAnswer::Failed(error) = answer else {
                return answer;
            };
            so_far.may_land |= matches!(error.failure(), Failure::Unknown | Failure::Unclassified);
            let try_again = matches!(
                error.failure(),
                Failure::Unknown | Failure::Conflict | Failure::Throttled
            );
            let pause = backoff.next(self.clock.as_ref());
            if !try_again || pause >= left(until, self.clock.now()) {
                return GroupAnswer::Failed(error);
            }
            self.clock.sleep(pause).await;
        }
    }
}

fn answer_all(group: Vec<Waiting>, sent: &mut SentGroups, answer: impl Fn() -> CommitAnswer) {
    for waiting in group {
        waiting.answer(answer(), sent);
    }
}
