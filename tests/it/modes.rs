//! All of these tests once more, with the keys taken at the commit, and with commits in groups.

use std::io::Write as _;
use std::process::Command;

use crate::support::{CLAIM, Mode};

/// One after the other: each has a database of its own, and as many threads as there are cores.
#[test]
fn every_test_passes_in_the_other_modes_too() {
    if std::env::var_os(CLAIM).is_some() {
        // This is a run in one mode.
        return;
    }
    for mode in Mode::ALL.into_iter().skip(1) {
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--skip", "modes::"])
            .env(CLAIM, mode.name())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        let complained = String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.success(),
            "{CLAIM}={}\n{said}\n{complained}",
            mode.name()
        );
        let closing = said.lines().rfind(|line| line.starts_with("test result"));
        // Past the harness, which keeps what passing tests print.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "{CLAIM}={}: {}", mode.name(), closing.unwrap()).unwrap();
    }
}
