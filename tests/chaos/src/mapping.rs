//! The event source mapping: gives batches to one worker at a time, and deletes what is done.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::bail;
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::event;
use crate::faults::{Act, Faults, When};
use crate::history::History;
use crate::queue::{Queue, Received};
use crate::response;
use crate::runtime_api::{self, Invocation, Said};
use crate::slot::{Slot, log_file};
use crate::timing::{GRACE, HUNG, LONGEST_WAIT_FOR_TAKEOVER, TIME_OUT, VISIBILITY};

/// What the pollers of all workers share.
pub(crate) struct Mapping {
    pub(crate) queue: Mutex<Queue>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) history: History,
    pub(crate) counts: Counts,
    pub(crate) function: PathBuf,
    pub(crate) directory: PathBuf,
    is_over: AtomicBool,
    invocations: AtomicUsize,
    usual: Mutex<Duration>,
}

#[derive(Default)]
pub(crate) struct Counts {
    /// Stalls during which another worker finished a message of the stalled one.
    pub(crate) takeovers: AtomicUsize,
    /// Invocations that Lambda would have ended, without a stall.
    pub(crate) timed_out: AtomicUsize,
    /// Invocations that ended with an error instead of a response.
    pub(crate) errors: AtomicUsize,
    /// Processes that ended and were not killed.
    pub(crate) exits: AtomicUsize,
}

/// How an invocation ended.
enum Ended {
    Response(Bytes),
    Error(Bytes),
    Died,
    TimedOut,
}

impl Mapping {
    pub(crate) fn new(
        queue: Queue,
        faults: Arc<Faults>,
        function: PathBuf,
        directory: PathBuf,
    ) -> Self {
        Self {
            queue: Mutex::new(queue),
            faults,
            history: History::new(),
            counts: Counts::default(),
            function,
            directory,
            is_over: AtomicBool::new(false),
            invocations: AtomicUsize::new(0),
            usual: Mutex::new(Duration::from_millis(100)),
        }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more is to be done: every poller ends when its invocation has.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Keeps a worker running, and gives it one batch after the other.
    pub(crate) async fn poll(self: Arc<Self>, slot: Arc<Slot>, store: u16) -> anyhow::Result<()> {
        let log = log_file(&self.directory, slot.number);
        while !self.is_over() {
            let (runtime_api, mut said) = runtime_api::serve().await?;
            slot.start(&self.function, &log, runtime_api, store)?;
            self.feed(&slot, &mut said).await?;
            slot.kill();
            slot.has_ended().await;
        }
        Ok(())
    }

    /// Gives batches to a process until it ends, or everything is over.
    async fn feed(&self, slot: &Slot, said: &mut UnboundedReceiver<Said>) -> anyhow::Result<()> {
        loop {
            let next = tokio::select! {
                next = timeout(HUNG, next(said)) => next,
                () = slot.has_ended() => return Ok(()),
            };
            let Ok(next) = next else {
                bail!(
                    "worker {} hangs: it is alive and asks for nothing",
                    slot.number
                );
            };
            let Some(batch) = self.receive(slot).await else {
                return Ok(());
            };
            let began = Instant::now();
            let lives = self.invoke(slot, said, next?, &batch).await?;
            if slot.is_stopped() {
                self.wait_for_takeover(began, &batch).await;
                slot.go_on();
            } else if !lives {
                return Ok(());
            }
        }
    }

    /// The next batch; `None` if everything is over or the worker has ended.
    async fn receive(&self, slot: &Slot) -> Option<Vec<Received>> {
        let most = self.faults.batch_size();
        loop {
            if self.is_over() || !slot.is_alive() {
                return None;
            }
            let batch = self.queue().receive(most);
            if !batch.is_empty() {
                return Some(batch);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// One invocation. Says whether the process lives on.
    async fn invoke(
        &self,
        slot: &Slot,
        said: &mut UnboundedReceiver<Said>,
        worker: oneshot::Sender<Invocation>,
        batch: &[Received],
    ) -> anyhow::Result<bool> {
        let id = self.invocations.fetch_add(1, Ordering::Relaxed) + 1;
        let waiting = self.queue().waiting();
        let plan = (self.faults).plan(batch.len(), waiting, self.usual());
        self.note(batch, |message| {
            let worker = slot.number;
            let (name, receive) = (message.message_id(), message.receives);
            format!("{name} to worker {worker}, invocation {id}, receive {receive}, {plan:?}")
        });
        slot.begin(id, &plan);
        let began = Instant::now();
        let invocation = Invocation {
            id,
            deadline: SystemTime::now() + TIME_OUT,
            event: event::of(batch),
        };
        let _ = worker.send(invocation);
        let struck_at_response = plan.fault == Some((Act::Kill, When::Response));
        let strike_in = match plan.fault {
            Some((_, When::Moment(moment))) => moment,
            _ => TIME_OUT * 2,
        };
        let strike = async {
            sleep(strike_in).await;
            slot.strike(id);
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = ended(said, id) => ended?,
            () = slot.has_ended() => Ended::Died,
            () = sleep_until(began + TIME_OUT + GRACE) => Ended::TimedOut,
            () = strike => Ended::TimedOut,
        };
        if struck_at_response && matches!(ended, Ended::Response(_)) {
            slot.strike(id);
            self.note(batch, |_| {
                format!("invocation {id}: killed with its response")
            });
            return Ok(false);
        }
        slot.end();
        match ended {
            Ended::Response(response) => {
                self.took(began.elapsed());
                self.delete(id, batch, &response);
                Ok(true)
            }
            Ended::Error(error) => {
                self.counts.errors.fetch_add(1, Ordering::Relaxed);
                let error = String::from_utf8_lossy(&error).into_owned();
                self.note(batch, |_| format!("invocation {id}: error {error}"));
                Ok(true)
            }
            Ended::Died => {
                if !slot.was_killed() {
                    self.counts.exits.fetch_add(1, Ordering::Relaxed);
                }
                self.note(batch, |_| format!("invocation {id}: the worker died"));
                Ok(false)
            }
            Ended::TimedOut if slot.is_stopped() => {
                self.note(batch, |_| {
                    format!("invocation {id}: stalled past its deadline")
                });
                Ok(true)
            }
            Ended::TimedOut => {
                self.counts.timed_out.fetch_add(1, Ordering::Relaxed);
                self.note(batch, |_| format!("invocation {id}: timed out"));
                Ok(false)
            }
        }
    }

    /// Holds a stalled worker until its lease has ended and others have done its work.
    async fn wait_for_takeover(&self, began: Instant, batch: &[Received]) {
        let done = || {
            let queue = self.queue();
            let done = batch
                .iter()
                .filter(|message| queue.is_deleted(message.number));
            done.count()
        };
        let before = done();
        sleep_until(began + TIME_OUT).await;
        let patience = Instant::now() + VISIBILITY + LONGEST_WAIT_FOR_TAKEOVER;
        while Instant::now() < patience && done() < batch.len() {
            sleep(Duration::from_millis(20)).await;
        }
        if done() > before {
            self.counts.takeovers.fetch_add(1, Ordering::Relaxed);
        }
        self.note(batch, |_| "the stalled worker goes on".to_owned());
    }

    fn delete(&self, id: usize, batch: &[Received], response: &[u8]) {
        let ids: Vec<_> = batch.iter().map(Received::message_id).collect();
        let done = response::done(response, &ids);
        self.note(batch, |message| {
            let is_done = |at: &usize| batch[*at].number == message.number;
            match &done {
                None => format!("invocation {id}: response not understood"),
                Some(done) if done.iter().any(is_done) => format!("invocation {id}: done"),
                Some(_) => format!("invocation {id}: reported as failed"),
            }
        });
        for at in done.unwrap_or_default() {
            self.queue().delete(batch[at].number);
        }
    }

    fn note(&self, batch: &[Received], what: impl Fn(&Received) -> String) {
        for message in batch {
            self.history.add(message.payment, &what(message));
        }
    }

    /// How long invocations take that nothing happens to.
    fn usual(&self) -> Duration {
        *self.usual.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn took(&self, time: Duration) {
        let mut usual = self.usual.lock().unwrap_or_else(PoisonError::into_inner);
        *usual = (*usual * 9 + time) / 10;
    }
}

/// Waits until the worker asks for an invocation. What it still says of an earlier one comes too late.
async fn next(said: &mut UnboundedReceiver<Said>) -> anyhow::Result<oneshot::Sender<Invocation>> {
    loop {
        match said.recv().await {
            Some(Said::Next(worker)) => return Ok(worker),
            Some(Said::Ended { .. }) => {}
            Some(Said::InitError(error)) => {
                bail!(
                    "the function can't start: {}",
                    String::from_utf8_lossy(&error)
                )
            }
            None => bail!("the Runtime API has ended"),
        }
    }
}

/// Waits for what comes of this invocation.
async fn ended(said: &mut UnboundedReceiver<Said>, id: usize) -> anyhow::Result<Ended> {
    loop {
        match said.recv().await {
            Some(Said::Ended {
                invocation,
                response,
            }) if invocation == id.to_string() => {
                return Ok(match response {
                    Ok(response) => Ended::Response(response),
                    Err(error) => Ended::Error(error),
                });
            }
            Some(_) => {}
            None => bail!("the Runtime API has ended"),
        }
    }
}
