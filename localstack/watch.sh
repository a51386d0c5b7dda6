#!/usr/bin/env bash
# Runs the sample function under `cargo lambda watch`, and feeds events to it with
# `cargo lambda invoke`: the function as it is deployed, without deploying it.
#
#   localstack/watch.sh events/01-first-delivery.json events/02-redelivery.json
#   AWS_ENDPOINT_URL=http://… localstack/watch.sh …      on the DynamoDB that runs there
#
# Without AWS_ENDPOINT_URL an emulator is started, and ended again. Needs Rust and Python 3.10 or later.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ] || [ "$1" = --help ]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
    exit 2
fi
PATH="$(localstack/tools.sh deploy):$PATH"
export PATH
options=()
if [ -z "${AWS_ENDPOINT_URL:-}" ]; then
    options=(--ministack "$(localstack/tools.sh emulator)/ministack")
fi
exec python tests/e2e/watch.py "${options[@]}" "$@"
