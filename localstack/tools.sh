#!/usr/bin/env bash
# Installs the tools that tests/e2e/requirements/ lists into environments of their own under
# target/tools, once: a run that finds them there takes no time. Prints the path of the `bin`.
#
#   localstack/tools.sh deploy      sam, cargo-lambda, cfn-lint, boto3
#   localstack/tools.sh emulator    ministack
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "error: $*" >&2
    exit 1
}

name=${1:-}
requirements="tests/e2e/requirements/$name.txt"
if [ -z "$name" ] || [ ! -f "$requirements" ]; then
    fail "say which tools: deploy or emulator"
fi
environment="$PWD/target/tools/$name"
# What was installed, and by which Python: a change of either makes a new environment.
installed="$environment/installed-requirements.txt"

python=${PYTHON:-python3}
command -v "$python" >/dev/null ||
    fail "$python is not there: install Python 3.10 or later, or name it in PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$("$python" --version) is too old: 3.10 or later is needed; name another one in PYTHON"

wanted=$("$python" --version && cat "$requirements")
if [ "$wanted" != "$(cat "$installed" 2>/dev/null)" ]; then
    echo "installing into target/tools/$name, once: $(grep -v '^#' "$requirements" | xargs)" >&2
    rm -rf "$environment"
    "$python" -m venv "$environment" ||
        fail "can't make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" >&2 ||
        fail "pip can't install $requirements; see above"
    # Last: an installation that was broken off is not taken for a whole one.
    printf '%s' "$wanted" >"$installed"
fi
echo "$environment/bin"
