//! The way from a worker to the store, and what goes wrong on it.
//!
//! A request is a thing of its own once it is sent: it lands whether or not the one who sent it
//! still waits.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use lambda_idempotency::store::{
    ClaimAnswer, ClaimRequest, CommitAnswer, CommitRequest, GroupAnswer, GroupRequest,
    ReleaseAnswer, ReleaseRequest, Seen, Store, StoreError,
};

use crate::conduct::{self, Sender};
use crate::faults::{self, Outcome, plan};
use crate::history;
use crate::memory::{Answer, Request};
use crate::oracle;
use crate::rival;
use crate::world::{Event, Shared, World, lock};

/// Where an answer is waited for.
#[derive(Clone, Default)]
pub struct Slot(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl Slot {
    pub fn fill(&self, answer: Answer) {
        let mut waiting = self.0.lock().unwrap();
        waiting.answer = Some(answer);
        let waker = waiting.waker.take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }

    async fn answer(&self) -> Answer {
        poll_fn(|context| {
            let mut waiting = self.0.lock().unwrap();
            match waiting.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// The store of one invocation.
pub struct SimStore {
    pub shared: Shared,
    pub from: Sender,
}

impl SimStore {
    async fn exchange(&self, request: Request) -> Answer {
        let slot = Slot::default();
        let request = Arc::new(request);
        send(&mut lock(&self.shared), self.from, &request, &slot);
        let answer = slot.answer().await;
        conduct::answered(&mut lock(&self.shared), self.from, &request, &answer);
        answer
    }
}

fn send(world: &mut World, from: Sender, request: &Arc<Request>, slot: &Slot) {
    world.counts.add("requests", request.kind());
    let plan = plan(world, request);
    history::sent(world, from, request, &plan);
    conduct::sent(world, from, request);
    let last = plan.landings.len().checked_sub(1);
    for (number, delay) in plan.landings.into_iter().enumerate() {
        let answers = match plan.outcome {
            Outcome::OfFirst => number == 0,
            Outcome::OfLast => Some(number) == last,
            Outcome::Failed { .. } | Outcome::Silence => false,
        };
        let landing = Landing {
            request: Arc::clone(request),
            from,
            answer_to: answers.then(|| slot.clone()),
            hides_record: plan.hides_record,
            is_copy: number > 0,
        };
        world.in_time(delay, Event::Land(landing));
    }
    if let Outcome::Failed { failure, after } = plan.outcome {
        let answer = request.failed(failure, "injected");
        world.in_time(after, Event::Reply(slot.clone(), answer));
    }
}

impl Store for SimStore {
    async fn claim(&self, request: &ClaimRequest) -> ClaimAnswer {
        match self.exchange(Request::Claim(request.clone())).await {
            Answer::Claim(answer) => answer,
            other => panic!("a claim was answered by {other:?}"),
        }
    }

    async fn commit(&self, request: &CommitRequest) -> CommitAnswer {
        match self.exchange(Request::Commit(request.clone())).await {
            Answer::Commit(answer) => answer,
            other => panic!("a commit was answered by {other:?}"),
        }
    }

    async fn commit_group(&self, request: &GroupRequest) -> GroupAnswer {
        match self.exchange(Request::Group(request.clone())).await {
            Answer::Group(answer) => answer,
            other => panic!("a group was answered by {other:?}"),
        }
    }

    async fn release(&self, request: &ReleaseRequest) -> ReleaseAnswer {
        match self.exchange(Request::Release(request.clone())).await {
            Answer::Release(answer) => answer,
            other => panic!("a release was answered by {other:?}"),
        }
    }

    async fn read(&self, record_id: &str) -> Result<Seen, StoreError> {
        match self.exchange(Request::Read(record_id.to_owned())).await {
            Answer::Read(answer) => answer,
            other => panic!("a read was answered by {other:?}"),
        }
    }
}

/// A request on its way.
pub struct Landing {
    request: Arc<Request>,
    from: Sender,
    answer_to: Option<Slot>,
    hides_record: bool,
    is_copy: bool,
}

impl Landing {
    /// One that nobody waits for.
    pub fn unasked(request: Request, from: Sender) -> Self {
        Self {
            request: Arc::new(request),
            from,
            answer_to: None,
            hides_record: false,
            is_copy: false,
        }
    }

    /// The request reaches the store.
    pub fn happens(self, world: &mut World) {
        let request = &*self.request;
        let before: Vec<_> = request
            .record_ids()
            .into_iter()
            .map(|id| (id.to_owned(), world.memory.record(id).cloned()))
            .collect();
        let now = world.since_start();
        let answer = world.memory.apply(request, now);
        history::landed(world, self.from, request, &answer, self.is_copy);
        oracle::after_landing(world, request, &before);
        conduct::landed(world, self.from, request, &answer);
        count_group(world, request, &answer);
        rival::may_come(world, request, &answer);
        if let Some(slot) = self.answer_to {
            let answer = if self.hides_record {
                answer.hidden()
            } else {
                answer
            };
            let delay = faults::latency(world);
            world.in_time(delay, Event::Reply(slot, answer));
        }
    }
}

/// What came of the transactions that hold several messages.
fn count_group(world: &mut World, request: &Request, answer: &Answer) {
    let (Request::Group(group), Answer::Group(answer)) = (request, answer) else {
        return;
    };
    let came = match answer {
        GroupAnswer::Committed => "committed",
        GroupAnswer::Cancelled(_) => "cancelled",
        _ => "undecided",
    };
    world.counts.add("groups", came);
    let messages = group.commits.len() as u64;
    world
        .counts
        .add_many("groups", "messages in them", messages);
}
