//! Runs the checker, and says in words what it found.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::protocol::Protocol;
use crate::state::State;
use crate::step::Step;

/// Visits every state, and fails with the shortest way to one that breaks an invariant.
pub(crate) fn holds(name: &str, protocol: Protocol) {
    let started = Instant::now();
    let checker = protocol
        .clone()
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    say(&format!(
        "{name}: {} states, {} steps, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f32(),
    ));
    for (invariant, path) in checker.discoveries() {
        panic!("{name}: broken: {invariant}\n{}", told(path));
    }
}

/// Past the capture of test output: the counts are shown at the end of each run.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

pub(crate) fn told(path: Path<State, Step>) -> String {
    let mut text = String::new();
    for (at, (state, step)) in path.into_vec().into_iter().enumerate() {
        let _ = writeln!(text, "{at:>3} {state:?}\n    {step:?}");
    }
    text
}
