//! Runs the checker, and says what it found.

use std::io::Write as _;
use std::time::{Duration, Instant};

use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::protocol::{Checked, Protocol};
use crate::state::State;
use crate::step::Step;
use crate::tell::told;

/// Visits every state, and fails with the shortest way to one that breaks a property.
pub(crate) fn holds(name: &'static str, protocol: Protocol) {
    let started = Instant::now();
    let checker = protocol
        .clone()
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join_and_report(&mut Progress {
            name,
            said: Instant::now(),
        });
    if let Some(property) = checker.discoveries().into_keys().min() {
        let path = shortest(property, protocol).expect("it was found before");
        panic!("{name}: broken: {property}\n{}", told(path));
    }
    say(&format!(
        "model: {name}: holds in {} states, {} steps, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f32(),
    ));
}

/// The checker stops at once, and so with the shortest way, only when it looks for one property.
fn shortest(property: &'static str, mut protocol: Protocol) -> Option<Path<State, Step>> {
    protocol.only = Some(property);
    protocol.checker().spawn_bfs().join().discovery(property)
}

/// Finds a state for each thing that has to come up.
pub(crate) fn covers(name: &'static str, mut protocol: Protocol) {
    protocol.checked = Checked::Coverage;
    let checker = protocol.checker().spawn_bfs().join();
    checker.assert_properties();
    say(&format!(
        "model: {name}: all {} situations come up in {} states",
        checker.discoveries().len(),
        checker.unique_state_count(),
    ));
}

/// Finds the shortest way to a state that breaks the property.
pub(crate) fn breaks(property: &'static str, protocol: Protocol) {
    let mutation = protocol.mutation.expect("a wrong protocol");
    match shortest(property, protocol) {
        Some(path) => {
            let steps = path.clone().into_actions().len();
            say(&format!(
                "model: {mutation:?} is caught in {steps} steps by {property}"
            ));
            // Shown on request, by `--nocapture`.
            println!("{}", told(path));
        }
        None => panic!("{mutation:?} is not caught: {property}"),
    }
}

/// Past the capture of test output: the counts are shown at the end of each run.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

struct Progress {
    name: &'static str,
    said: Instant,
}

impl Reporter<Protocol> for Progress {
    fn report_checking(&mut self, data: ReportData) {
        if !data.done && self.said.elapsed() > Duration::from_secs(30) {
            self.said = Instant::now();
            say(&format!(
                "model: {}: {} states, depth {} so far",
                self.name, data.unique_states, data.max_depth
            ));
        }
    }

    fn report_discoveries(
        &mut self,
        _: &Protocol,
        _: std::collections::BTreeMap<&'static str, ReportDiscovery<Protocol>>,
    ) {
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(100)
    }
}
