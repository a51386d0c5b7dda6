//! Many seeds, on all processors; or one with its history.

use std::io::Write as _;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::counts::Counts;
use crate::handler::SIMULATED_PANIC;
use crate::run::run;

const SEEDS: u64 = 1_000;

/// Past the test harness, which would keep it to itself.
fn say(what: impl std::fmt::Display) {
    let mut out = std::io::stdout();
    writeln!(out, "{what}").unwrap();
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {value:?}")),
    )
}

fn hush_simulated_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload_as_str();
            if said != Some(SIMULATED_PANIC) {
                loud(panic);
            }
        }));
    });
}

#[test]
fn every_message_takes_effect_once_whatever_happens() {
    hush_simulated_panics();
    if let Some(seed) = number("SEED") {
        replay(seed);
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (counts, mut failed) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(&next, seeds)))
            .collect();
        let mut counts = Counts::default();
        let mut failed = Vec::new();
        for worker in workers {
            let (more, failures) = worker.join().unwrap();
            counts.merge(&more);
            failed.extend(failures);
        }
        (counts, failed)
    });
    failed.sort();
    for (seed, violation) in failed.iter().take(20) {
        say(format_args!(
            "SEED={seed} cargo test --test simulation  # {violation}"
        ));
    }
    if let Some((seed, _)) = failed.first() {
        let history = run(*seed, true).history;
        say(format_args!(
            "\nThe history of seed {seed}:\n{}",
            history.join("\n")
        ));
    }
    say(format_args!(
        "\n{counts}\nsimulation: {seeds} seeds, {} failed; {} deliveries, {} faults, {} effects, \
         {} duplicates, {} takeovers, {} groups committed and {} cancelled; {:.1} s",
        failed.len(),
        counts.of("messages", "deliveries"),
        counts.all("faults of requests")
            + counts.all("faults of handlers")
            + counts.all("interruptions"),
        counts.of("messages", "effects"),
        counts.of("outcomes", "duplicate"),
        counts.of("interruptions", "takeover"),
        counts.of("groups", "committed"),
        counts.of("groups", "cancelled"),
        started.elapsed().as_secs_f64()
    ));
    assert!(
        failed.is_empty(),
        "{} of {seeds} seeds failed",
        failed.len()
    );
    // Or nothing of them was tried.
    for came in ["committed", "cancelled"] {
        assert!(
            counts.of("groups", came) > 0 || seeds < SEEDS,
            "no transaction of several messages was {came}"
        );
    }
}

fn work(next: &AtomicU64, seeds: u64) -> (Counts, Vec<(u64, String)>) {
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            return (counts, failed);
        }
        if seed > 0 && seed.is_multiple_of(1_000) {
            say(format_args!("seed {seed} of {seeds}"));
        }
        let ran = run(seed, false);
        counts.merge(&ran.counts);
        failed.extend(ran.violation.map(|violation| (seed, violation)));
    }
}

fn replay(seed: u64) {
    let ran = run(seed, true);
    say(format_args!("{}\n\n{}", ran.history.join("\n"), ran.counts));
    if let Some(violation) = ran.violation {
        panic!("seed {seed}: {violation}");
    }
}

#[test]
fn a_seed_has_the_same_history_twice() {
    hush_simulated_panics();
    for seed in 0..20 {
        let (once, twice) = (run(seed, true), run(seed, true));
        assert!(once.history.len() > 20);
        for (one, other) in once.history.iter().zip(&twice.history) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(once.history.len(), twice.history.len(), "seed {seed}");
        assert_eq!(once.counts, twice.counts, "seed {seed}");
        // Nor does it matter whether it is written down.
        assert_eq!(once.counts, run(seed, false).counts, "seed {seed}");
    }
}
