//! The place of one worker: its process of the moment, and the fault that waits for it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::faults::{Act, Cut, Faults, Outage, Plan, When};
use crate::store::{ACCOUNTS, IDEMPOTENCY, PAYMENTS};

pub(crate) struct Slot {
    pub(crate) number: usize,
    faults: Arc<Faults>,
    process: Mutex<Option<Child>>,
    now: Mutex<Now>,
}

/// What goes on in this place.
#[derive(Default)]
struct Now {
    invocation: usize,
    requests: usize,
    fault: Option<(Act, When)>,
    cuts: usize,
    outage: Option<Outage>,
    outage_ends: Option<Instant>,
    stopped: bool,
    killed: bool,
}

/// One request to the store, as counted in its invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) invocation: usize,
    pub(crate) number: usize,
    pub(crate) cuts: usize,
    /// What an outage does to it.
    pub(crate) outage: Option<Cut>,
}

impl Slot {
    pub(crate) fn new(number: usize, faults: Arc<Faults>) -> Self {
        Self {
            number,
            faults,
            process: Mutex::default(),
            now: Mutex::default(),
        }
    }

    /// Starts the sample function, as Lambda would.
    pub(crate) fn start(
        &self,
        function: &Path,
        log: &Path,
        runtime_api: u16,
        store: u16,
    ) -> anyhow::Result<()> {
        let log = File::options().append(true).create(true).open(log)?;
        let process = Command::new(function)
            // Nothing of the developer's own account or proxy gets in.
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", format!("127.0.0.1:{runtime_api}"))
            .env("AWS_LAMBDA_FUNCTION_NAME", "payments")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env(
                "AWS_ENDPOINT_URL_DYNAMODB",
                format!("http://127.0.0.1:{store}"),
            )
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "chaos")
            .env("AWS_SECRET_ACCESS_KEY", "chaos")
            .env("IDEMPOTENCY_TABLE", IDEMPOTENCY)
            .env("PAYMENTS_TABLE", PAYMENTS)
            .env("ACCOUNTS_TABLE", ACCOUNTS)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {}", function.display()))?;
        *lock(&self.process) = Some(process);
        Ok(())
    }

    /// Returns when the process has ended.
    pub(crate) async fn has_ended(&self) {
        while self.is_alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        match lock(&self.process).as_mut() {
            None => false,
            Some(process) => matches!(process.try_wait(), Ok(None)),
        }
    }

    /// Arms the fault of the next invocation.
    pub(crate) fn begin(&self, invocation: usize, plan: &Plan) {
        *lock(&self.now) = Now {
            invocation,
            requests: 0,
            fault: plan.fault,
            cuts: plan.cuts,
            outage: plan.outage,
            outage_ends: None,
            stopped: false,
            killed: false,
        };
    }

    /// The invocation has ended: what has not struck it by now won't.
    pub(crate) fn end(&self) {
        lock(&self.now).fault = None;
    }

    /// Counts a request of the worker to the store.
    pub(crate) fn request(&self) -> Request {
        let mut now = lock(&self.now);
        now.requests += 1;
        let outage = now.outage.filter(|outage| now.requests >= outage.from);
        let is_out = outage.filter(|outage| {
            let ends = now
                .outage_ends
                .get_or_insert_with(|| Instant::now() + outage.lasts);
            Instant::now() < *ends
        });
        Request {
            invocation: now.invocation,
            number: now.requests,
            cuts: now.cuts,
            outage: is_out.map(|outage| outage.cut),
        }
    }

    /// What this invocation is to be struck by, if it still is.
    pub(crate) fn armed(&self, invocation: usize) -> Option<(Act, When)> {
        let now = lock(&self.now);
        now.fault.filter(|_| now.invocation == invocation)
    }

    /// Strikes, unless the invocation has ended or was struck before.
    pub(crate) fn strike(&self, invocation: usize) {
        let mut now = lock(&self.now);
        if now.invocation != invocation {
            return;
        }
        let Some((act, _)) = now.fault.take() else {
            return;
        };
        let signal = match act {
            Act::Kill => Signal::KILL,
            Act::Stall => Signal::STOP,
        };
        if self.signal(signal) {
            now.stopped = act == Act::Stall;
            now.killed = act == Act::Kill;
            self.faults.has_happened(act);
        }
    }

    pub(crate) fn was_killed(&self) -> bool {
        lock(&self.now).killed
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.now).stopped
    }

    /// Lets a stalled worker go on.
    pub(crate) fn go_on(&self) {
        lock(&self.now).stopped = false;
        self.signal(Signal::CONT);
        self.faults.stall_has_ended();
    }

    /// Ends the process, as Lambda does at the time-out.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether there was a process to send it to. As long as the lock is held, nobody else asks how
    /// the process ended, so that its id is not another's.
    fn signal(&self, signal: Signal) -> bool {
        let mut process = lock(&self.process);
        let Some(process) = process.as_mut() else {
            return false;
        };
        if !matches!(process.try_wait(), Ok(None)) {
            return false;
        }
        let pid = process.id().and_then(|id| Pid::from_raw(id as i32));
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }
}

/// The log of the worker at this place.
pub(crate) fn log_file(directory: &Path, slot: usize) -> PathBuf {
    directory.join(format!("worker-{slot}.log"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
