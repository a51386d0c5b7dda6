"""Instructions a message, counted by callgrind. See benches/instructions.sh."""

import json
import os
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tables
from common import MODES, OUT, PROGRAMS, events, joined, progress

OUR_OWN = [(f"the library alone, {mode}", "library", mode) for mode in MODES]
WITH_SDK = [
    ("the library and the SDK, claim-first", "library-sdk", "claim-first"),
    ("by hand and the SDK, claim-first", "hand-written", "claim-first"),
    ("the library and the SDK, at-commit", "library-sdk", "at-commit"),
    ("by hand and the SDK, at-commit", "hand-written", "at-commit"),
    ("the library and the SDK, grouped", "library-sdk", "grouped"),
]
TOP = 25


def count(system: str, mode: str, path: Path) -> tuple[int, Path]:
    """All instructions of one run, and the file with the profile."""
    profile = OUT / "callgrind" / f"{system}-{mode}-{path.stem}"
    profile.parent.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={profile}",
            PROGRAMS / "bench-instant",
            *("--system", system, "--mode", mode, "--events", path),
        ],
        capture_output=True,
        text=True,
    )
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        raise SystemExit(run.stderr)
    return int(found[1]), profile


def per_message(system: str, mode: str, once: Path, messages: int) -> tuple[float, Path]:
    first, _ = count(system, mode, once)
    second, profile = count(system, mode, joined(once, once))
    return (second - first) / messages, profile


def measure(row: tuple[str, str, str]) -> tuple[dict, Path]:
    label, system, mode = row
    small, profile = per_message(system, mode, events(10, 100), 1_000)
    small_message = len(events(1, 1).read_bytes())
    batch = 6_000_000 // small_message
    # A large event with the SDK takes minutes under valgrind, and the row of the library alone
    # says what there is to know of its growth.
    large = None
    if system == "library":
        large, _ = per_message(system, mode, events(batch, 1), batch)
    progress(f"{label}: {small:,.0f} instructions a message")
    figures = {"label": label, "system": system, "mode": mode}
    return figures | {"batch_of_10": small, "event_of_6_mb": large}, profile


def top(profile: Path, messages: int) -> str:
    """The functions with the highest cost of their own."""
    said = subprocess.run(
        ["callgrind_annotate", "--auto=no", "--show-percs=no", "--threshold=100", profile],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    costs = Counter()
    for line in said.splitlines():
        # cost, file:function [object]; a function is in several files, where others were inlined.
        found = re.match(r"\s*([\d,]+)\s+(?:\?\?\?|[^\s<:]*\.\w+):(\S.*?)(?: \[.*)?$", line)
        if found:
            costs[found[2].removesuffix("'2")] += int(found[1].replace(",", "")) / messages
    return "\n".join(f"{cost:>10,.0f}  {name[:150]}" for name, cost in costs.most_common(TOP))


def main() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        measured = list(pool.map(measure, OUR_OWN + WITH_SDK))
    figures = [row for row, _ in measured]
    (OUT / "instructions.json").write_text(json.dumps(figures, indent=1) + "\n")
    print("Instructions a message:\n")
    print(tables.instructions(figures))
    for row, profile in measured:
        if row["system"] == "library":
            print(f"\nBy function, a message, {row['label']} (with the start of the process):\n")
            print(top(profile, 2_000))


if __name__ == "__main__":
    main()
