#!/usr/bin/env bash
# Builds the sample function, deploys template.yaml, sends real messages to the real queue, and checks
# that each of them takes effect once. A line a case, and at the end `N passed, N failed`.
#
#   localstack/e2e.sh                         needs no Docker: starts an emulator from PyPI
#   localstack/e2e.sh --docker                starts LocalStack with compose.yaml, and stops it again
#   AWS_ENDPOINT_URL=http://… localstack/e2e.sh   uses what runs there
#
# More options, passed on: [--no-build] [--deploy-only] [case …]; `--help` lists the cases.
# Needs Rust and Python 3.10 or later; the tools go into target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."

docker=false
if [ "${1:-}" = --docker ]; then
    docker=true
    shift
fi

if ! command -v cargo >/dev/null; then
    echo "error: cargo is not there: install Rust, https://rustup.rs" >&2
    exit 1
fi
PATH="$(localstack/tools.sh deploy):$PATH"
export PATH

options=()
if $docker; then
    if ! localstack/localstack.sh is-running; then
        localstack/localstack.sh up
        # Only what was started here is stopped.
        trap 'localstack/localstack.sh down' EXIT
    fi
    AWS_ENDPOINT_URL=$(localstack/localstack.sh endpoint)
    export AWS_ENDPOINT_URL
elif [ -z "${AWS_ENDPOINT_URL:-}" ]; then
    options=(--ministack "$(localstack/tools.sh emulator)/ministack")
fi
if [ -n "${AWS_ENDPOINT_URL:-}" ]; then
    # No emulator looks at them; every client wants some.
    export AWS_ACCESS_KEY_ID="${AWS_ACCESS_KEY_ID:-test}"
    export AWS_SECRET_ACCESS_KEY="${AWS_SECRET_ACCESS_KEY:-test}"
fi

if $docker; then
    python tests/e2e/run.py "${options[@]}" "$@"
else
    # In the place of this shell, so that a signal reaches it and the emulator is ended.
    exec python tests/e2e/run.py "${options[@]}" "$@"
fi
