//! One invocation: the real service on a simulated store and clock, polled step by step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, UNIX_EPOCH};

use aws_lambda_events::sqs::SqsBatchResponse;
use lambda_idempotency::{
    Error, Handler, Idempotency, Key, Message, Reason, Report, SqsBatch, SqsService,
};

use crate::clock::{SimClock, shown};
use crate::conduct::{self, Sender};
use crate::handler::handle;
use crate::history::worker as named;
use crate::oracle::{self, CONSUMER};
use crate::order::Order;
use crate::queue::Delivery;
use crate::setup::{Mode, Setup};
use crate::wire::SimStore;
use crate::world::{MILLI, MINUTE, SECOND, Shared, World, lock};

type Response = Result<SqsBatchResponse, Error>;

pub struct Invocation {
    pub from: Sender,
    pub deliveries: Vec<Delivery>,
    /// In true time, and whether the response has to keep it.
    deadline: u64,
    keeps_deadline: bool,
    future: Pin<Box<dyn Future<Output = Response>>>,
    woken: Arc<Woken>,
    /// By position: whether the message was acknowledged.
    reported: Arc<Mutex<Vec<(usize, bool)>>>,
    /// When it is polled so often, it is dropped, or stands still for so long.
    cancelled_at: Option<u32>,
    stalled_at: Option<(u32, u64)>,
    polls: u32,
    pub stands_still: bool,
    pub was_stalled: bool,
}

/// What came of one poll.
pub enum Step {
    Goes,
    StandsStill(u64),
    Cancelled,
    Responded(Response),
    Panicked,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Invocation {
    pub fn start(shared: &Shared, from: Sender, deliveries: Vec<Delivery>) -> Self {
        let Sender { worker, invocation } = from;
        let mut world = lock(shared);
        let setup = world.setup.clone();
        let in_peace = world.faults_ended;
        let skew = if in_peace { 0 } else { setup.skews[worker] };
        let deadline = world.now + setup.timeout;
        let mode = setup.mode(&mut world.rng);
        let event: SqsBatch = serde_json::from_value(world.queue.event(&deliveries)).unwrap();
        let told_by_own_clock = !setup.true_deadlines || skew == 0;
        let mut chance = |percent| !in_peace && world.rng.percent(percent);
        let (is_cancelled, is_stalled) = (chance(setup.cancelled), chance(setup.stalled));
        let cancelled_at = is_cancelled.then(|| draw_poll(&mut world));
        let stalled_at = is_stalled.then(|| {
            let at = draw_poll(&mut world);
            (at, world.rng.between(SECOND, 20 * MINUTE))
        });
        world.note(&named(worker), || {
            let ids: Vec<&str> = deliveries
                .iter()
                .map(|delivery| delivery.id.as_str())
                .collect();
            format!("invocation {invocation} with {ids:?}, {mode:?}, clock off by {skew} us")
        });
        let told = shown(deadline, if told_by_own_clock { skew } else { 0 });
        let told = told.duration_since(UNIX_EPOCH).unwrap().as_millis();
        let told = u64::try_from(told).unwrap();
        conduct::starts(&mut world, from, told);
        drop(world);

        let reported = Arc::default();
        let observer = observer(shared, from, &deliveries, in_peace, &reported);
        let store = SimStore {
            shared: shared.clone(),
            from,
        };
        let clock = SimClock {
            shared: shared.clone(),
            skew,
        };
        let tables = lock(shared).tables.clone();
        let idempotency = Idempotency::builder(store)
            .consumer(CONSUMER)
            .clock(clock)
            .claim(mode.claim())
            .remember_completed(setup.remembered)
            .lease_at_least(Duration::from_micros(setup.lease_at_least))
            .retry_for(Duration::from_micros(setup.retry_for))
            .observer(observer);
        let known = tables.known_keys(setup.all_keys_known).into_iter();
        let idempotency = known
            .fold(idempotency, |builder, table| {
                builder.key_attributes(table, ["id"])
            })
            .build()
            .unwrap();
        let mut context = lambda_runtime::Context::default();
        context.deadline = told;
        let handler_shared = shared.clone();
        let future = if setup.stores_results {
            let service = idempotency.sqs(move |message: Message<Order>| {
                let (shared, tables) = (handler_shared.clone(), tables.clone());
                async move {
                    let (order, run) = handle(shared, from, message).await?;
                    Ok(order.transaction(&tables, run))
                }
            });
            process(service, &setup, mode, event, context)
        } else {
            let service = idempotency.sqs(move |message: Message<Order>| {
                let (shared, tables) = (handler_shared.clone(), tables.clone());
                async move {
                    let (order, run) = handle(shared, from, message).await?;
                    Ok(order.silent_transaction(&tables, run))
                }
            });
            process(service, &setup, mode, event, context)
        };
        Self {
            from,
            deliveries,
            deadline,
            keeps_deadline: told_by_own_clock,
            future,
            woken: Arc::new(Woken(AtomicBool::new(true))),
            reported,
            cancelled_at,
            stalled_at,
            polls: 0,
            stands_still: false,
            was_stalled: false,
        }
    }

    pub fn is_ready(&self) -> bool {
        !self.stands_still && self.woken.0.load(Ordering::Relaxed)
    }

    pub fn poll(&mut self, shared: &Shared) -> Step {
        self.polls += 1;
        if self.cancelled_at == Some(self.polls) {
            return Step::Cancelled;
        }
        if let Some((at, duration)) = self.stalled_at
            && at == self.polls
        {
            self.stalled_at = None;
            return Step::StandsStill(lock(shared).now + duration);
        }
        self.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        let future = self.future.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(&mut context))) {
            Err(_) => Step::Panicked,
            Ok(Poll::Ready(response)) => Step::Responded(response),
            Ok(Poll::Pending) => match lock(shared).stall.take() {
                Some(until) => Step::StandsStill(until),
                None => Step::Goes,
            },
        }
    }

    /// The response names every message that is not acknowledged, once, and comes in time.
    pub fn check(&self, world: &mut World, response: &Response) -> Vec<String> {
        let reported = self.reported.lock().unwrap();
        let mut positions: Vec<usize> = reported.iter().map(|(position, _)| *position).collect();
        positions.sort_unstable();
        if !positions.iter().copied().eq(0..self.deliveries.len()) {
            world.violate(|| format!("reported were the positions {positions:?}"));
        }
        let margin = (100 * MILLI).min(world.setup.timeout / 20);
        // The deadline is told in whole milliseconds.
        let latest = self.deadline - margin + MILLI;
        if self.keeps_deadline && !self.was_stalled && world.now > latest {
            let late = world.now - latest;
            world.violate(|| format!("the response came {late} us too late"));
        }
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                world.violate(|| format!("the batch failed as a whole: {error:#}"));
                return Vec::new();
            }
        };
        let failures = response.batch_item_failures.iter();
        let failures: Vec<String> = failures
            .map(|failure| failure.item_identifier.clone())
            .collect();
        let mut expected: Vec<&str> = Vec::new();
        for (position, delivery) in self.deliveries.iter().enumerate() {
            let is_acknowledged = reported.contains(&(position, true));
            if !is_acknowledged && !expected.contains(&delivery.id.as_str()) {
                expected.push(&delivery.id);
            }
        }
        if failures != expected {
            world.violate(|| format!("reported as failed {failures:?}, and are {expected:?}"));
        }
        failures
    }
}

fn draw_poll(world: &mut World) -> u32 {
    let most = world.rng.pick(&[5, 20, 60]);
    u32::try_from(world.rng.between(1, most)).unwrap()
}

fn observer(
    shared: &Shared,
    from: Sender,
    deliveries: &[Delivery],
    in_peace: bool,
    reported: &Arc<Mutex<Vec<(usize, bool)>>>,
) -> impl Fn(&Report) + Send + Sync + 'static {
    let (shared, reported) = (shared.clone(), Arc::clone(reported));
    let messages: Vec<usize> = deliveries.iter().map(|delivery| delivery.message).collect();
    move |report: &Report| {
        let position = report.position.unwrap();
        let is_acknowledged = report.outcome.is_acknowledged();
        reported.lock().unwrap().push((position, is_acknowledged));
        let mut world = lock(&shared);
        world.note(&named(from.worker), || {
            let id = report.message_id.as_deref().unwrap_or("one without an id");
            let reason = report.reason.map_or("", Reason::as_str);
            let error = report.error.as_ref();
            let error = error.map_or_else(String::new, |error| format!("{error:#}"));
            format!("{id} is {} {reason}  {error}", report.outcome)
        });
        conduct::reported(&mut world, from, report);
        oracle::reported(&mut world, from, messages[position], in_peace, report);
    }
}

fn process<H: Handler<Order>>(
    service: SqsService<H, Order>,
    setup: &Setup,
    mode: Mode,
    event: SqsBatch,
    context: lambda_runtime::Context,
) -> Pin<Box<dyn Future<Output = Response>>> {
    let mut service = service
        .key(Key::body("/key").unwrap())
        .concurrency(setup.concurrency);
    if setup.fingerprints {
        service = service.fingerprint_at("/payload").unwrap();
    }
    if mode == Mode::Grouped {
        service = service.group_commits(Duration::from_micros(setup.linger));
    }
    Box::pin(async move { service.process(event, &context).await })
}
