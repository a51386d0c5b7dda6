#!/usr/bin/env bash
# Runs tests/it on a DynamoDB other than the embedded one. At the end: `N passed, N failed, …`.
#
#   tests/second_store/run.sh                     on ministack, an emulator from PyPI, started here
#   AWS_ENDPOINT_URL_DYNAMODB=http://… tests/second_store/run.sh      on what runs there
#
# Arguments are parts of the tests' names: `tests/second_store/run.sh races:: store::` runs those.
# Needs Rust and Python 3.10 or later; the emulator goes into target/tools.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v cargo >/dev/null; then
    echo "error: cargo is not there: install Rust, https://rustup.rs" >&2
    exit 1
fi
tools=$(localstack/tools.sh emulator)
# In the place of this shell, so that a signal reaches it and the emulator is ended.
exec "$tools/python" tests/second_store/run.py --ministack "$tools/ministack" "$@"
