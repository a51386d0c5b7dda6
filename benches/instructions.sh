#!/usr/bin/env bash
# Counts the instructions that a message costs, on stores that answer at once (valgrind's callgrind,
# release build): what N and 2N messages take, and the difference by N. It does not depend on what
# else the machine does. Prints a table and the functions with the most, and writes
# target/bench/instructions.json.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "instructions.sh needs valgrind" >&2; exit 2; }
cargo build --release --locked --package bench-harness --bin bench-instant --bin bench-events
exec python3 benches/lib/instructions.py "$@"
