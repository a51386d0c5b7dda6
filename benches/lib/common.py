"""Where everything is, the systems, and the events."""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from processes import System

BENCHES = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or BENCHES.parent / "target")
OUT = TARGET / "bench"
PROGRAMS = TARGET / "release"
LIBRARY = "lambda-idempotency"
MODES = ("claim-first", "at-commit", "grouped")


def library(mode: str) -> System:
    return rust(LIBRARY, "library", mode)


def rust(name: str, system: str, mode: str) -> System:
    driver = str(PROGRAMS / "bench-driver")
    return System(name, mode, (driver, "--system", system, "--mode", mode))


def systems() -> list[System]:
    """In the order in which each round runs them: the rivals of a ratio beside each other."""
    node = (shutil.which("node") or "node", str(OUT / "typescript" / "driver.mjs"))
    python = (str(OUT / "python" / "bin" / "python"), str(BENCHES / "powertools-python" / "driver.py"))
    return [
        library("claim-first"),
        rust("hand-written", "hand-written", "claim-first"),
        library("at-commit"),
        rust("hand-written", "hand-written", "at-commit"),
        library("grouped"),
        System("powertools-python", None, python),
        System("powertools-typescript", None, node),
    ]


def events(batch: int, count: int, padding: int = 0, first: int = 0) -> Path:
    """A file of `count` events with `batch` messages each."""
    path = OUT / "events" / f"{batch}x{count}-{padding}-{first}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        arguments = {"batch": batch, "events": count, "padding": padding, "first": first}
        command = [PROGRAMS / "bench-events"]
        for name, value in arguments.items():
            command += [f"--{name}", str(value)]
        with path.open("wb") as file:
            subprocess.run(command, stdout=file, check=True)
    return path


def joined(*paths: Path) -> Path:
    """One file of the events of several."""
    path = OUT / "events" / ("+".join(path.stem for path in paths) + ".jsonl")
    path.write_bytes(b"".join(path.read_bytes() for path in paths))
    return path


def check_rows(system: System, rows: dict, messages: int, writes: int = 1) -> None:
    """Every message has its record and has paid 10 into each of its accounts, once."""
    accounts = messages * writes
    wanted = {"records": {"COMPLETED": messages}, "accounts": accounts, "balance": 10 * accounts}
    if rows != wanted:
        raise SystemExit(f"{system.label} left {rows}, where {wanted} is right")


def median(values) -> float:
    return statistics.median(values)


def progress(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def rounded(value: float | None, digits: int = 3) -> float | None:
    """To this many significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def machine() -> dict:
    """What the figures were measured on, and with."""

    def said(*command) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    pinned = dict(
        line.split("==")
        for line in (BENCHES / "powertools-python" / "requirements.txt").read_text().split()
    )
    npm = json.loads((BENCHES / "powertools-typescript" / "package.json").read_text())["dependencies"]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "date": time.strftime("%Y-%m-%d"),
        "commit": said("git", "-C", str(BENCHES), "rev-parse", "--short", "HEAD"),
        "versions": {
            "rustc": said("rustc", "--version").split()[1],
            "python": platform.python_version(),
            "node": said("node", "--version").removeprefix("v"),
            "aws-lambda-powertools (PyPI)": pinned["aws-lambda-powertools"],
            "boto3": pinned["boto3"],
            "@aws-lambda-powertools/idempotency (npm)": npm["@aws-lambda-powertools/idempotency"],
            "@aws-sdk/client-dynamodb": npm["@aws-sdk/client-dynamodb"],
        }
        | crates("lambda-idempotency", "aws-sdk-dynamodb", "dynoxide-rs"),
        "load_before": os.getloadavg()[0],
    }


def crates(*names: str) -> dict[str, str]:
    lock = tomllib.loads((BENCHES.parent / "Cargo.lock").read_text())
    return {
        package["name"]: package["version"] for package in lock["package"] if package["name"] in names
    }
