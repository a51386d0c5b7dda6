//! Finds an execution that does not end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::keep;

/// Thousands of times what any input takes.
const LONGEST: Duration = Duration::from_secs(20);

type Running = Arc<Mutex<(Instant, Vec<u8>)>>;

pub(super) struct Watch {
    running: Running,
    done: Sender<()>,
}

impl Watch {
    /// Ends the process if one execution takes too long: nothing else can end a loop.
    pub(super) fn start(name: &'static str) -> Self {
        let running: Running = Arc::new(Mutex::new((Instant::now(), Vec::new())));
        let watched = Arc::clone(&running);
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            while is_done.recv_timeout(LONGEST / 10) == Err(RecvTimeoutError::Timeout) {
                let running = watched.lock().unwrap();
                if running.0.elapsed() > LONGEST {
                    let path = keep(name, &running.1);
                    eprintln!("{name} hangs: {}", path.display());
                    std::process::exit(1);
                }
            }
        });
        Self { running, done }
    }

    pub(super) fn executes(&self, input: &[u8]) {
        let mut running = self.running.lock().unwrap();
        running.0 = Instant::now();
        running.1.clear();
        running.1.extend_from_slice(input);
    }

    pub(super) fn stop(self) {
        // The thread may have ended by itself.
        let _ = self.done.send(());
    }
}
