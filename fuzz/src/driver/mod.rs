//! One target for a time: its corpus as it is, then mutations of it, until one fails.

mod mutate;
mod shrink;
mod values;
mod watch;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuzz::Target;

use self::mutate::Mutator;
use self::watch::Watch;

/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

pub(crate) struct Driver {
    name: &'static str,
    target: Target,
    corpus: Vec<Vec<u8>>,
    seed: u64,
}

/// What a target was tried with.
pub(crate) struct Summary {
    pub(crate) name: &'static str,
    pub(crate) executions: u64,
    pub(crate) corpus: usize,
}

/// An input that failed.
pub(crate) struct Found {
    name: &'static str,
    path: PathBuf,
    executions: u64,
}

impl Driver {
    pub(crate) fn new(name: &'static str, target: Target, seed: u64) -> Self {
        Self {
            name,
            target,
            corpus: corpus(name),
            seed,
        }
    }

    pub(crate) fn run(&self, time: Duration) -> Result<Summary, Found> {
        let started = Instant::now();
        let mut told = started;
        let mut executions = 0;
        let watch = Watch::start(self.name);
        let mut mutator = Mutator::new(&self.corpus, self.seed);
        let as_they_are = self.corpus.iter().cloned();
        let mutated = std::iter::from_fn(|| Some(mutator.next()));
        for input in as_they_are.chain(mutated) {
            executions += 1;
            watch.executes(&input);
            if !self.holds(&input) {
                let input = shrink::shrink(input, |smaller| !self.holds(smaller));
                watch.stop();
                return Err(Found {
                    name: self.name,
                    path: keep(self.name, &input),
                    executions,
                });
            }
            let now = Instant::now();
            if now - told >= PROGRESS {
                told = now;
                let seconds = (now - started).as_secs();
                eprintln!("{}: {executions} executions in {seconds} s", self.name);
            }
            if now - started >= time && executions >= self.corpus.len() as u64 {
                break;
            }
        }
        watch.stop();
        Ok(Summary {
            name: self.name,
            executions,
            corpus: self.corpus.len(),
        })
    }

    fn holds(&self, input: &[u8]) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.target)(input))).is_ok()
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path) = (self.name, self.path.display());
        write!(
            f,
            "{name} fails after {} executions. Again: cargo run -p fuzz --profile fuzz -- {name} --file {path}",
            self.executions
        )
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = folder("corpus").join(name);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    // By name, so that a seed means the same everywhere.
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Writes an input that failed to where it can be replayed from.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = folder("artifacts");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}-{}", std::process::id()));
    std::fs::write(&path, input).unwrap();
    path
}
