#!/usr/bin/env bash
# Lets libFuzzer look for inputs that reach new code:  fuzz/libfuzzer/run.sh TARGET [SECONDS]
# Needs a nightly toolchain and a C++ compiler. What it finds beside the corpus of the repository stays
# in target/libfuzzer-corpus/, an input that fails in fuzz/libfuzzer/artifacts/.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${1:?which target: event, key, fingerprint or record}
seconds=${2:-60}

version=0.13.2
if ! target/tools/bin/cargo-fuzz --version 2>/dev/null | grep -q "$version"; then
    cargo install cargo-fuzz --version "$version" --locked --debug --root target/tools --quiet
fi
export PATH="$PWD/target/tools/bin:$PATH"

# The versions that everything else here is tested with; cargo adds those of libFuzzer.
cp Cargo.lock fuzz/libfuzzer/Cargo.lock

grown=target/libfuzzer-corpus/$target
mkdir -p "$grown"
# Without a sanitizer: there is no `unsafe` here to find fault with, and it runs twice as fast.
rustup run nightly cargo fuzz run --fuzz-dir fuzz/libfuzzer --sanitizer none \
    --target-dir "${CARGO_TARGET_DIR:-target}" \
    "$target" "$grown" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -max_len=8192 -timeout=20 -print_final_stats=1
