#!/usr/bin/env bash
# Measures this library beside what could be used instead, on one store on this machine.
#
#   benches/run.sh            the comparison: about ten minutes on a quiet machine
#   benches/run.sh growth     the library alone, as batch, concurrency, writes and results grow
#   benches/run.sh publish    fills BENCHMARKS.md and benches/results/ from the newest figures
#
# With --quick the first two take a minute and show that everything works; their figures are none.
# Needs Rust, a C compiler, Python 3.11 or later, Node.js 20 or later. What it installs, at pinned
# versions, goes into target/bench. It measures over 127.0.0.1 only.
set -euo pipefail
cd "$(dirname "$0")/.."

what=compare
options=()
for argument; do
    case $argument in
    growth | publish) what=$argument ;;
    --quick) options+=("$argument") ;;
    *)
        sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
        exit 2
        ;;
    esac
done
out=${CARGO_TARGET_DIR:-target}/bench
mkdir -p "$out"

# Does its command again only if the file has changed since.
once_for() {
    local file=$1 stamp=$2
    shift 2
    cmp --silent "$file" "$stamp" && return
    "$@"
    cp "$file" "$stamp"
}

python_packages() {
    python3 -m venv --clear "$out/python"
    "$out/python/bin/pip" install --quiet --disable-pip-version-check \
        --requirement benches/powertools-python/requirements.txt
}

node_packages() {
    mkdir -p "$out/typescript"
    cp benches/powertools-typescript/package*.json "$out/typescript/"
    npm --prefix "$out/typescript" ci --silent --no-audit --no-fund
}

bundle() {
    cp benches/powertools-typescript/driver.ts "$out/typescript/"
    npm --prefix "$out/typescript" run --silent build >/dev/null 2>&1
}

if [ "$what" != publish ]; then
    cargo build --release --locked --package bench-harness --bins
fi
if [ "$what" = compare ]; then
    cargo build --release --locked --package payments
    once_for benches/powertools-python/requirements.txt "$out/python/installed" python_packages
    once_for benches/powertools-typescript/package-lock.json "$out/typescript/installed" node_packages
    bundle
fi
exec python3 "benches/lib/$what.py" "${options[@]}"
