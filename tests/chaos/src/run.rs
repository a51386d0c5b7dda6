//! One run, from the first message to the check of the ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::faults::Faults;
use crate::ledger::Ledger;
use crate::mapping::Mapping;
use crate::payments::Producer;
use crate::proxy::Network;
use crate::queue::Queue;
use crate::report::Run;
use crate::slot::Slot;
use crate::store::{Store, open};
use crate::timing::{HUNG, MAX_RECEIVES, VISIBILITY};

/// Sent in addition as long as there were too few faults.
const MORE: usize = 50;

/// The store is killed once for so many messages.
const MESSAGES_FOR_A_RESTART: usize = 500;

const PROGRESS: Duration = Duration::from_secs(5);

/// Whether the ledger is right at the end.
pub(crate) async fn run(args: &Args) -> anyhow::Result<bool> {
    let messages = args.messages as usize;
    let workers = usize::from(args.workers);
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let function = std::env::current_exe()?.with_file_name("payments");
    if !function.exists() {
        bail!(
            "{} is not there: cargo build -p payments",
            function.display()
        );
    }
    let directory = tempfile::Builder::new().prefix("chaos-").tempdir()?;
    let store = Arc::new(Store::start(directory.path().join("store.db")).await?);
    let kills = args.kills.unwrap_or((messages / 25).max(1));
    let stalls = args.stalls.unwrap_or((messages / 100).max(1));
    let faults = Arc::new(Faults::new(rng.fork(), kills, stalls, workers));
    let network = Arc::new(Network::new(Arc::clone(&store), Arc::clone(&faults)));
    let mut producer = Producer::new(rng.fork());
    let mut queue = Queue::new(rng.fork(), VISIBILITY, MAX_RECEIVES);
    queue.send(producer.messages(messages));
    let mapping = Arc::new(Mapping::new(
        queue,
        Arc::clone(&faults),
        function,
        directory.path().to_owned(),
    ));

    let mut pollers = JoinSet::new();
    for number in 0..workers {
        let slot = Arc::new(Slot::new(number, Arc::clone(&faults)));
        let port = network.connect(Arc::clone(&slot)).await?;
        pollers.spawn(Arc::clone(&mapping).poll(slot, port));
    }
    let mut driver = Driver {
        mapping: &mapping,
        network: &network,
        store: &store,
        producer: &mut producer,
        seed,
        dead_lettered: 0,
    };
    let drained = tokio::select! {
        drained = driver.drain() => drained,
        Some(ended) = pollers.join_next() => ended?.and(Err(anyhow::anyhow!("a poller has ended"))),
    };
    let dead_lettered = driver.dead_lettered;
    let checked = async {
        drained?;
        mapping.end();
        while let Some(ended) = pollers.join_next().await {
            ended??;
        }
        // What is late must be in before the ledger is read.
        network.is_quiet().await;
        store.stop().await?;
        Ledger::read(&open(store.file())?)?.check(producer.payments())
    };
    let findings = checked.await;
    let run = Run {
        seed,
        producer: &producer,
        mapping: &mapping,
        network: &network,
        store: &store,
        dead_lettered,
    };
    run.progress();
    let is_right = match &findings {
        Ok(findings) => {
            run.wrong(findings);
            println!("{}", run.json(findings));
            findings.lost.is_empty() && findings.doubled.is_empty() && findings.wrong.is_empty()
        }
        Err(_) => false,
    };
    if !is_right {
        eprintln!(
            "the store and the workers' logs are in {}",
            directory.keep().display()
        );
    }
    findings.context("the run did not come to its end")?;
    Ok(is_right)
}

/// Keeps the run going until everything that was wanted has happened.
struct Driver<'a> {
    mapping: &'a Mapping,
    network: &'a Network,
    store: &'a Store,
    producer: &'a mut Producer,
    seed: u64,
    dead_lettered: usize,
}

impl Driver<'_> {
    /// Returns when the queue is empty, and there were enough faults.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let mut told = Instant::now();
        let mut progress = (usize::MAX, Instant::now());
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                self.progress();
            }
            let (waiting, dead) = {
                let queue = self.mapping.queue();
                (queue.waiting(), queue.dead())
            };
            if waiting != progress.0 {
                progress = (waiting, Instant::now());
            } else if progress.1.elapsed() > HUNG {
                bail!("{waiting} messages are waiting, and nothing goes on");
            }
            let done = self.producer.sent() - waiting;
            if done / MESSAGES_FOR_A_RESTART > self.store.restarts() as usize {
                self.store.restart().await?;
            }
            if waiting > 0 {
                continue;
            }
            if !self.mapping.faults.are_enough() {
                let more = self.producer.messages(MORE);
                self.mapping.queue().send(more);
            } else if dead > 0 {
                // Whoever redrives a dead-letter queue has ended what filled it.
                self.mapping.faults.end();
                self.dead_lettered += self.mapping.queue().redrive();
            } else {
                return Ok(());
            }
        }
    }

    fn progress(&self) {
        let run = Run {
            seed: self.seed,
            producer: self.producer,
            mapping: self.mapping,
            network: self.network,
            store: self.store,
            dead_lettered: self.dead_lettered,
        };
        run.progress();
    }
}
