#!/usr/bin/env bash
# Kills and stalls workers of the sample function, cuts their connections to the store, and checks that
# each payment is booked exactly once. The last line is JSON; the exit code is 1 if anything is wrong.
#
#   tests/chaos/run.sh            5,000 messages, at least 200 kills and 50 stalls
#   tests/chaos/run.sh 600        a short run: a kill for 25 messages, a stall for 100
#   SEED=7 tests/chaos/run.sh     with the faults of that seed, as far as processes allow
#
# Needs Rust and a Unix. `tests/chaos/run.sh --help` has more options.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build --quiet --locked --package payments --package chaos
exec "$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/chaos" "$@"
