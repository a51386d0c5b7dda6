"""Deploys the template to an endpoint and shows that each message takes effect once there.

Started by localstack/e2e.sh, which has the tools on the PATH.
"""

import argparse
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import cases
import diagnostics
from bank import Bank, Failed, Skipped, note
from emulator import Ministack
from stack import WORK, Stack


def main() -> int:
    arguments = read_arguments()
    # A `kill` takes the same way out as Ctrl-C, so that the emulator is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    WORK.mkdir(parents=True, exist_ok=True)
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        # No emulator checks them, but every client wants some.
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            os.environ[name] = "test"
        os.environ.pop("AWS_SESSION_TOKEN", None)
        os.environ.pop("AWS_PROFILE", None)
    server = (
        nullcontext(SimpleNamespace(endpoint=endpoint))
        if endpoint
        else Ministack(arguments.ministack, WORK)
    )
    with server as running:
        return run(Stack(running.endpoint), arguments)


def run(stack: Stack, arguments) -> int:
    started = time.monotonic()
    print(f"endpoint   {stack.endpoint}")
    try:
        if not arguments.no_build:
            print("building   sam build (a first build takes minutes)", flush=True)
            stack.build()
        print("deploying  sam deploy", flush=True)
        stack.deploy()
        for done in stack.prepare():
            print(f"by hand    {done}")
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"ready      after {time.monotonic() - started:.0f} s", flush=True)
    if arguments.deploy_only:
        for name, value in sorted(stack.outputs.items()):
            print(f"           {name} = {value}")
        return 0

    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases.ALL:
        name = case.__name__.removeprefix("cases.")
        if arguments.case and name not in arguments.case:
            continue
        result = show(case, name, stack)
        counts[result] += 1
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


def show(case, name: str, stack: Stack) -> str:
    """Runs a case and prints its line."""
    bank = Bank(stack, name.replace("_", "-"))
    title = case.__doc__.strip().splitlines()[0]
    started = time.monotonic()
    why = None
    try:
        bank.clear()
        case.run(bank)
        result = "passed"
    except Skipped as reason:
        result, why = "skipped", str(reason)
    except Failed as failure:
        result, why = "failed", str(failure)
    except Exception as error:  # noqa: BLE001 - the other cases are still of interest
        result, why = "failed", repr(error)
    took = time.monotonic() - started
    print(f"{result:7} {took:5.1f} s  {name}: {title}", flush=True)
    if why:
        note(why)
    if result == "failed":
        diagnostics.show(bank)
    return result


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ministack", type=Path, help="the emulator to start without AWS_ENDPOINT_URL")
    parser.add_argument("--no-build", action="store_true", help="deploy what was built last")
    parser.add_argument("--deploy-only", action="store_true", help="deploy and print the outputs")
    known = [case.__name__.removeprefix("cases.") for case in cases.ALL]
    parser.add_argument("case", nargs="*", help=f"run these only: {', '.join(known)}")
    arguments = parser.parse_args()
    unknown = set(arguments.case) - set(known)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if not os.environ.get("AWS_ENDPOINT_URL") and not arguments.ministack:
        parser.error("set AWS_ENDPOINT_URL, or start it by localstack/e2e.sh")
    return arguments


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
