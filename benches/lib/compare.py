"""The comparison: every system in turn on one store, several rounds, medians.

    python3 benches/lib/compare.py [--quick]
"""

import json
import subprocess
import sys

import common
import picture
import tables
from common import OUT, check_rows, events, joined, median, progress, rounded
from processes import Run, Store, System, run

BATCH = 10
WARM = 30
LATENCIES_MS = (0, 5)
# A file of events is as long as takes a system about this long, so that each one's median rests on
# the same time of measuring.
FULL = {"rounds": 10, "seconds": 1.0, "cold": 7, "large": 6_000_000}
QUICK = {"rounds": 1, "seconds": 0.3, "cold": 1, "large": 600_000}


def same_work(store: Store, systems: list[System]) -> dict[System, float]:
    """Gives all systems the same events, and looks whether they leave the same rows. Returns how
    many messages a second each one takes, roughly."""
    count = WARM + 10
    rates = {}
    left = {}
    for system in systems:
        result = run(store, system, events(BATCH, count), WARM, 10 * BATCH)
        check_rows(system, result.rows, count * BATCH)
        left[system] = result.rows
        rates[system] = result.messages_per_s
    assert all(rows == left[systems[0]] for rows in left.values())
    progress(f"all systems leave the same rows: {json.dumps(left[systems[0]])}")
    return rates


def in_turn(store: Store, systems: list[System], latency: int, size: dict) -> dict[System, list[Run]]:
    store.tell(f"latency {latency}")
    rates = same_work(store, systems)
    results = {system: [] for system in systems}
    for number in range(size["rounds"]):
        # There and back, so that each is as often before its neighbour as after it.
        for system in systems if number % 2 == 0 else reversed(systems):
            batches = max(10, min(2_000, round(rates[system] * size["seconds"] / BATCH)))
            result = run(store, system, events(BATCH, WARM + batches), WARM, batches * BATCH)
            check_rows(system, result.rows, (WARM + batches) * BATCH)
            results[system].append(result)
            progress(
                f"{latency} ms, round {number + 1}: {system.label}: "
                f"{result.messages_per_s:.0f} messages/s"
            )
    return results


def cold_starts(store: Store, systems: list[System], latency: int, size: dict) -> dict[System, float]:
    """Process start to first response, one message."""
    store.tell(f"latency {latency}")
    one = events(1, 1)
    times = {system: [] for system in systems}
    for _ in range(size["cold"]):
        for system in systems:
            # Nothing is left to do after the first event, which is the warm one.
            times[system].append(run(store, system, joined(one), 1, 1).first_response_ms)
    progress(f"{latency} ms: cold starts")
    return {system: median(values) for system, values in times.items()}


def log_lines(store: Store, size: dict) -> list[dict]:
    """What the line costs that the library logs of each message at INFO, the level of the template."""
    store.tell("latency 0")
    batches = 150
    rows = []
    for mode in common.MODES:
        system = common.library(mode)
        cpu = {"WARN": [], "INFO": []}
        for _ in range(size["rounds"]):
            for level, values in cpu.items():
                environment = {"AWS_LAMBDA_LOG_LEVEL": level}
                path = events(BATCH, WARM + batches)
                result = run(store, system, path, WARM, batches * BATCH, environment=environment)
                values.append(result.cpu_us_per_message)
        medians = {level: rounded(median(values)) for level, values in cpu.items()}
        rows.append({"mode": mode, "cpu_us_per_message": medians})
    progress("log lines")
    return rows


def duplicates(store: Store, systems: list[System]) -> list[dict]:
    """Every event a second time: requests a message."""
    mode = "claim-first"
    remembering = (*common.library(mode).command, "--remember", "1000")
    systems = [*systems, System(common.LIBRARY, f"{mode}, remember_completed", remembering)]
    store.tell("latency 0")
    once = events(BATCH, 20)
    rows = []
    for system in systems:
        result = run(store, system, joined(once, once), 20, 20 * BATCH)
        check_rows(system, result.rows, 20 * BATCH)
        rows.append(
            {
                "system": system.name,
                "mode": system.mode,
                "requests_per_duplicate": result.requests_per_message,
            }
        )
    progress("duplicates")
    return rows


def memory(store: Store, systems: list[System], size: dict) -> list[dict]:
    """The peak above idle for one large event, of many small messages and of few large ones."""
    store.tell("latency 0")
    small_message = len(events(1, 1).read_bytes())
    few = 6
    shapes = {
        "many small": (size["large"] // small_message, 0),
        "few large": (few, size["large"] // few - small_message),
    }
    rows = []
    for shape, (batch, padding) in shapes.items():
        large = events(batch, 1, padding, first=1)
        for system in systems:
            if shape == "many small" and system.name.startswith("powertools"):
                # Minutes for a figure that no row of the table asks for.
                continue
            result = run(store, system, joined(events(1, 1), large), 1, batch)
            check_rows(system, result.rows, 1 + batch)
            event_mb = large.stat().st_size / 1e6
            rows.append(
                {
                    "system": system.name,
                    "mode": system.mode,
                    "shape": shape,
                    "messages": batch,
                    "event_mb": rounded(event_mb),
                    "idle_mb": rounded(result.idle_mb),
                    "peak_mb": rounded(result.peak_mb),
                    "above_idle_per_event_byte": rounded(
                        (result.peak_mb - result.idle_mb) / event_mb
                    ),
                }
            )
    progress("memory")
    return rows


def binary_mb() -> float:
    """The sample function, stripped as SAM ships it."""
    stripped = OUT / "payments.stripped"
    subprocess.run(["strip", "-o", stripped, common.PROGRAMS / "payments"], check=True)
    return stripped.stat().st_size / 1e6


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    size = QUICK if quick else FULL
    about = common.machine() | {"is_quick": quick}
    systems = common.systems()
    results = []
    with Store(common.PROGRAMS / "bench-store") as store:
        for latency in LATENCIES_MS:
            cold = cold_starts(store, systems, latency, size)
            for system, runs in in_turn(store, systems, latency, size).items():
                results.append(
                    {
                        "system": system.name,
                        "mode": system.mode,
                        "batch": BATCH,
                        "latency_ms": latency,
                        "messages_per_s": rounded(median(r.messages_per_s for r in runs), 4),
                        "requests_per_message": rounded(median(r.requests_per_message for r in runs)),
                        "cpu_us_per_message": rounded(median(r.cpu_us_per_message for r in runs)),
                        "peak_mb": rounded(median(r.peak_mb for r in runs)),
                        "cold_start_ms": rounded(cold[system]),
                    }
                )
        more = about | {
            "rounds": size["rounds"],
            "log_lines": log_lines(store, size),
            "duplicates": duplicates(store, systems),
            "memory": memory(store, systems, size),
            "binary_mb": rounded(binary_mb()),
        }
    (OUT / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (OUT / "more.json").write_text(json.dumps(more, indent=1) + "\n")
    (OUT / "comparison.svg").write_text(picture.comparison(results, more))
    print(tables.comparison(results, more))
    print(f"\n{OUT}/results.json, more.json, comparison.svg")
    if quick:
        print("Quick: one short round. It shows that everything works, not how fast it is.")


if __name__ == "__main__":
    main()
