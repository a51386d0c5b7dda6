"""The tests of tests/it on a second store: on ministack, or on what AWS_ENDPOINT_URL_DYNAMODB names.

Run by run.sh, which brings the emulator.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import boto3

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from emulator import Ministack  # noqa: E402

# What the names of the tests' tables begin with: tests/it/support/tables.rs.
PREFIX = "lambda-idempotency-test-"
# As tests/it/support/mode.rs names them.
MODES = ("first", "at-commit", "grouped")
GAP = re.compile(r"(?P<test>\S+)(?: \((?P<modes>.*?)\))?: (?P<reason>.*)")
COUNTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)


def main() -> int:
    arguments = read_arguments()
    # A `kill` takes the same way out as Ctrl-C, so that the emulator is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    named = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB")
    gaps = [] if named else read_gaps()
    with tempfile.TemporaryDirectory(prefix="second-store-") as directory:
        store = (
            nullcontext(SimpleNamespace(endpoint=named))
            if named
            else Ministack(arguments.ministack, Path(directory))
        )
        with store as store:
            return run(store.endpoint, gaps, arguments.tests)


def run(endpoint: str, gaps: list[dict], tests: list[str]) -> int:
    print(f"tests/it on {endpoint}", flush=True)
    os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
    passed, failed, shown, is_good = 0, 0, 0, True
    # Chosen tests run in the first mode. The test that runs all modes knows nothing of gaps.
    for mode in MODES[:1] if tests else MODES:
        print(f"mode {mode}", flush=True)
        os.environ["CLAIM"] = mode
        of_mode = {gap["test"]: gap["reason"] for gap in gaps if mode in gap["modes"]}
        skipped = [option for test in ("modes::", *of_mode) for option in ("--skip", test)]
        counts = run_tests(cargo_test(*skipped, *tests))
        passed, failed, is_good = passed + counts[0], failed + counts[1], is_good and counts[2]
        if tests or not of_mode:
            continue
        print(f"{len(of_mode)} tests that the emulator can't pass:")
        for test, fails in run_gaps(list(of_mode)).items():
            print(f"  {test}\n    {of_mode[test]}", flush=True)
            shown += fails
            if not fails:
                print("    but it has passed, or was not found: take it off gaps.txt")
                is_good = False

    left = tables_left(endpoint)
    if left:
        is_good = False
        print("tables that were not deleted:", *left)
    print(
        f"{passed} passed, {failed} failed, {shown} gaps of the emulator, {len(left)} tables left"
    )
    return 0 if is_good else 1


def run_tests(command: list[str]) -> tuple[int, int, bool]:
    """How many passed and failed, and whether all is well. What is said of each is shown."""
    passed, failed = 0, 0
    # A group of its own, with the tests that cargo starts, so that all of it can be ended.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            for line in running.stdout:
                print(line, end="", flush=True)
                if counts := COUNTS.match(line):
                    passed, failed = map(int, counts.groups())
        except BaseException:
            os.killpg(running.pid, signal.SIGTERM)
            raise
    return passed, failed, running.returncode == 0 and passed > 0


def run_gaps(gaps: list[str]) -> dict[str, bool]:
    """Whether each of these fails, as it has to on this emulator."""
    told = subprocess.run(
        cargo_test("--exact", *gaps), capture_output=True, text=True
    ).stdout
    return {gap: f"test {gap} ... FAILED\n" in told for gap in gaps}


def cargo_test(*options: str) -> list[str]:
    command = ["cargo", "test", "--locked", "--package", "lambda-idempotency", "--test", "it"]
    return [*command, "--", *options]


def tables_left(endpoint: str) -> list[str]:
    credentials = {}
    if "//127.0.0.1:" in endpoint:
        credentials = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "region_name": "eu-west-1",
        }
    client = boto3.client("dynamodb", endpoint_url=endpoint, **credentials)
    pages = client.get_paginator("list_tables").paginate()
    names = [name for page in pages for name in page["TableNames"] if name.startswith(PREFIX)]
    # DynamoDB names a table until it is gone.
    described = (client.describe_table(TableName=name)["Table"] for name in names)
    return [table["TableName"] for table in described if table["TableStatus"] != "DELETING"]


def read_gaps() -> list[dict]:
    lines = (HERE / "gaps.txt").read_text().splitlines()
    gaps = [GAP.fullmatch(line).groupdict() for line in lines if line and not line.startswith("#")]
    return [gap | {"modes": (gap["modes"] or ", ".join(MODES)).split(", ")} for gap in gaps]


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ministack", type=Path)
    parser.add_argument("tests", nargs="*")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
