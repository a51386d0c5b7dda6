//! The library on a store that answers at once: one invocation, from the event's JSON to the
//! response's. `cargo bench -p bench-harness`

use bench_harness::events::event;
use bench_harness::instant::InstantStore;
use bench_harness::library::{Function, Mode, Settings};
use bench_harness::session::context;
use bench_harness::work::Deposits;
use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

#[divan::bench(args = Mode::ALL, consts = [1, 10, 100, 1_000])]
fn invocation<const BATCH: usize>(bencher: Bencher<'_, '_>, mode: Mode) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let settings = Settings {
        mode,
        concurrency: 10,
        remembered: 0,
        work: Deposits::default(),
    };
    let mut function = Function::new(InstantStore, settings).unwrap();
    let event = event(0, BATCH, 0);
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| runtime.block_on(function.invoke(event.as_bytes(), context().unwrap())));
}
