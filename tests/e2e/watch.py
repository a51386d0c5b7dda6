"""Feeds events to the sample function under `cargo lambda watch`. Started by localstack/watch.sh."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

from emulator import Ministack, unused_port
from stack import ROOT, WORK, Stack

TABLES = {
    "IDEMPOTENCY_TABLE": "idempotency",
    "PAYMENTS_TABLE": "payments",
    "ACCOUNTS_TABLE": "accounts",
}
# A first build takes minutes.
SECONDS_TO_BUILD = 900


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ministack", type=Path)
    parser.add_argument("event", nargs="+", type=Path, help="files like those in events/")
    arguments = parser.parse_args()
    missing = [str(event) for event in arguments.event if not event.is_file()]
    if missing:
        parser.error(f"no such file: {', '.join(missing)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    WORK.mkdir(parents=True, exist_ok=True)

    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "test")
    os.environ.setdefault("AWS_REGION", "us-east-1")
    server = (
        nullcontext(SimpleNamespace(endpoint=endpoint))
        if endpoint
        else Ministack(arguments.ministack, WORK)
    )
    with server as running:
        stack = Stack(running.endpoint)
        for table in TABLES.values():
            create(stack.dynamodb, table)
        with Watch(running.endpoint) as watch:
            failed = [event for event in arguments.event if not watch.invoke(event)]
    # What a person has to know of the function's log: that its clock is not believed, and how often.
    warnings = [line for line in watch.log.read_text().splitlines() if "deadline" in line]
    for line in warnings:
        print(line)
    print(f"{len(arguments.event)} events, {len(failed)} invocations failed; log: {watch.log}")
    return 1 if failed else 0


def create(dynamodb, table: str):
    try:
        dynamodb.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )
    except dynamodb.exceptions.ResourceInUseException:
        return
    dynamodb.get_waiter("table_exists").wait(TableName=table)


class Watch:
    """`cargo lambda watch` on a port of its own."""

    def __init__(self, endpoint: str):
        self.port = unused_port()
        self.log = WORK / "watch.log"
        self.environment = os.environ | TABLES | {"AWS_ENDPOINT_URL": endpoint}

    def __enter__(self):
        self.process = subprocess.Popen(
            [
                "cargo", "lambda", "watch",
                "--package", "payments",
                "--invoke-address", "127.0.0.1",
                "--invoke-port", str(self.port),
                "--ignore-changes",
            ],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            self.wait_until_listening()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_until_listening(self):
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up and self.process.poll() is None:
            try:
                # No request: whatever is asked of it, it takes for an event.
                socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
                return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"cargo lambda watch did not start; its log: {self.log}")

    def invoke(self, event: Path) -> bool:
        """Prints the response. The first one waits until the function is built."""
        ended = subprocess.run(
            [
                "cargo", "lambda", "invoke", "payments",
                "--invoke-address", "127.0.0.1",
                "--invoke-port", str(self.port),
                "--data-file", event.resolve(),
            ],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_BUILD,
        )  # fmt: skip
        said = (ended.stdout + ended.stderr).strip()
        print(f"{event.stem}: {said}", flush=True)
        return ended.returncode == 0

    def stop(self):
        # The function's process is in the group too.
        for ending in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, ending)
                self.process.wait(timeout=10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
