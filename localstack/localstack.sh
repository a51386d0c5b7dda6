#!/usr/bin/env bash
# Runs the sample on LocalStack.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'HELP'
Runs the sample on LocalStack, in Docker.

  localstack/localstack.sh up         starts LocalStack, and waits until it is healthy
  localstack/localstack.sh deploy     builds the sample, deploys template.yaml, prints the outputs
  localstack/localstack.sh test       the same, and all end-to-end cases
  localstack/localstack.sh endpoint   prints its URL, for AWS_ENDPOINT_URL
  localstack/localstack.sh logs       prints LocalStack's log
  localstack/localstack.sh down       stops it, and removes its containers and data

Variables:
  LOCALSTACK_PORT         the port on 127.0.0.1 (4566)
  LOCALSTACK_IMAGE        another release (localstack/localstack:4.14.0, the last without an account)
  LOCALSTACK_AUTH_TOKEN   needed by newer releases, from https://app.localstack.cloud
  DOCKER_SOCKET           where Docker listens (/var/run/docker.sock)
HELP
}

fail() {
    echo "error: $*" >&2
    exit 1
}

port=${LOCALSTACK_PORT:-4566}
endpoint="http://127.0.0.1:$port"

# What is needed is said before anything is started.
check_docker() {
    command -v docker >/dev/null ||
        fail "docker is not there. Without Docker, localstack/e2e.sh tests on another emulator."
    docker compose version >/dev/null 2>&1 ||
        fail "docker has no compose: install the package docker-compose-plugin (v2)"
    docker info >/dev/null 2>&1 ||
        fail "docker does not answer: start it, or let this user talk to it (\`docker info\` says why)"
}

compose() {
    docker compose --project-name lambda-idempotency --file localstack/compose.yaml "$@"
}

is_running() {
    [ -n "$(compose ps --quiet --status running localstack 2>/dev/null)" ]
}

is_port_taken() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

check_image() {
    case ${LOCALSTACK_IMAGE:-} in
    '' | *:[0-4].* | *:[0-4]) ;;
    *)
        [ -n "${LOCALSTACK_AUTH_TOKEN:-}" ] ||
            fail "$LOCALSTACK_IMAGE needs LOCALSTACK_AUTH_TOKEN (https://app.localstack.cloud);" \
                "without LOCALSTACK_IMAGE a release without a token is used"
        ;;
    esac
}

up() {
    check_image
    check_docker
    if ! is_running && is_port_taken; then
        fail "port $port is taken by something else: name another one in LOCALSTACK_PORT"
    fi
    if ! compose up --detach --wait --wait-timeout 180; then
        compose logs --tail 30 localstack >&2 || true
        if compose logs localstack 2>/dev/null | grep -qi 'auth.token\|license'; then
            echo "hint: this release needs LOCALSTACK_AUTH_TOKEN" >&2
        fi
        compose down --volumes >/dev/null 2>&1 || true
        fail "LocalStack did not get healthy; the end of its log is above"
    fi
    echo "LocalStack is up: export AWS_ENDPOINT_URL=$endpoint"
}

need_it_running() {
    check_docker
    is_running || fail "LocalStack is not running: localstack/localstack.sh up"
}

case ${1:-} in
up) up ;;
deploy)
    need_it_running
    AWS_ENDPOINT_URL=$endpoint exec localstack/e2e.sh --deploy-only
    ;;
test)
    need_it_running
    shift
    AWS_ENDPOINT_URL=$endpoint exec localstack/e2e.sh "$@"
    ;;
endpoint) echo "$endpoint" ;;
is-running) command -v docker >/dev/null && is_running ;;
logs)
    check_docker
    compose logs localstack
    ;;
down)
    check_docker
    compose down --volumes
    ;;
help | --help | -h) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
