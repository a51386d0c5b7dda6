"""Growth: what the library's figures become as one input grows.

    python3 benches/lib/growth.py [--quick]
"""

import json
import math
import sys

import common
import picture
import tables
from common import MODES, OUT, check_rows, events, library, median, progress, rounded
from processes import Run, Store, run

# Of y ~ x^e between two neighbouring points: above this, y is said to grow faster than x. Costs
# that are there for a batch of one already only make e smaller.
FASTER = 1.15

# name, title, unit, latency in ms, whether the input is part of every message, points: (x, batch,
# events, arguments)
SWEEPS = [
    {
        "name": "batch",
        "title": "Messages in a batch, 10 at once",
        "unit": "in a batch",
        "latency_ms": 0,
        "of": "event",
        "points": [(n, n, max(1, 2_000 // n), {}) for n in (1, 10, 100, 1_000, 10_000)],
    },
    {
        "name": "concurrency",
        "title": "Messages at once, a batch of 100, 5 ms added to each request",
        "unit": "at once",
        "latency_ms": 5,
        "of": None,
        "points": [(n, 100, 5 if n < 4 else 20, {"concurrency": n}) for n in (1, 2, 4, 8, 16, 32, 64)],
    },
    {
        "name": "writes",
        "title": "Business writes a message, a batch of 10",
        "unit": "writes",
        "latency_ms": 0,
        "of": "message",
        "points": [(n, 10, max(4, 100 // n), {"writes": n}) for n in (1, 2, 5, 10, 25, 50, 99)],
    },
    {
        "name": "result",
        "title": "Size of the result, a batch of 10",
        "unit": "bytes",
        "latency_ms": 0,
        "of": "message",
        "points": [
            (n, 10, 20 if n < 100_000 else 5, {"result-bytes": n})
            for n in (1, 100, 1_000, 10_000, 100_000, 300_000)
        ],
    },
]


def measure(store: Store, sweep: dict, mode: str, point: tuple, rounds: int, quick: bool) -> dict:
    x, batch, count, arguments = point
    warm = max(1, min(20, 200 // batch))
    if quick:
        count = min(count, 2)
        warm = 1
    extra = [text for name, value in arguments.items() for text in (f"--{name}", value)]
    results: list[Run] = []
    for _ in range(rounds):
        # The smallest event warms, so that idle memory is that of an idle process.
        path = common.joined(events(1, warm, first=10_000_000), events(batch, count))
        system = library(mode)
        result = run(store, system, path, warm, batch * count, extra)
        check_rows(system, result.rows, warm + batch * count, arguments.get("writes", 1))
        results.append(result)
    figures = {
        "mode": mode,
        "x": x,
        "messages_per_s": rounded(median(r.messages_per_s for r in results), 4),
        "requests_per_message": rounded(median(r.requests_per_message for r in results)),
        "cpu_us_per_message": rounded(median(r.cpu_us_per_message for r in results)),
        "idle_mb": rounded(median(r.idle_mb for r in results)),
        "peak_mb": rounded(median(r.peak_mb for r in results)),
        "grows_faster": [],
    }
    progress(f"{sweep['title']}: {x:,}, {mode}: {figures['messages_per_s']:,} messages/s")
    return figures


def flag(sweep: dict, points: list[dict]) -> None:
    """Marks the points at which something grew faster than the input since the point before."""
    per_event = sweep["of"] == "event"
    for before, after in zip(points, points[1:]):
        if before["mode"] != after["mode"]:
            continue
        by = math.log(after["x"] / before["x"])

        def exponent(value):
            return math.log(value(after) / value(before)) / by

        def seconds(point):
            return (point["x"] if per_event else 1) / point["messages_per_s"]

        def cpu(point):
            return (point["x"] if per_event else 1) * point["cpu_us_per_message"]

        def requests(point):
            return (point["x"] if per_event else 1) * point["requests_per_message"]

        def memory(point):
            # Below a megabyte it is the allocator's steps that are seen.
            return max(1.0, point["peak_mb"] - point["idle_mb"])

        if sweep["of"] is None:
            # More at once do the same work: here no cost may grow with it at all.
            bounds = {"CPU": (cpu, 0.15), "requests": (requests, 0.15), "time": (seconds, 0.15)}
        else:
            bounds = {
                "CPU": (cpu, FASTER),
                "requests": (requests, FASTER),
                "time": (seconds, FASTER),
                "memory": (memory, FASTER),
            }
        after["grows_faster"] = [
            f"{name} (x^{exponent(value):.2f})"
            for name, (value, bound) in bounds.items()
            if exponent(value) > bound
        ]


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    about = common.machine() | {"is_quick": quick}
    sweeps = []
    with Store(common.PROGRAMS / "bench-store") as store:
        for sweep in SWEEPS:
            store.tell(f"latency {sweep['latency_ms']}")
            points = []
            chosen = sweep["points"][::2] if quick else sweep["points"]
            for mode in MODES:
                rounds = 1 if quick else 3
                of_mode = [measure(store, sweep, mode, point, rounds, quick) for point in chosen]
                flag(sweep, of_mode)
                points += of_mode
            sweeps.append(
                {name: sweep[name] for name in ("name", "title", "unit", "latency_ms")}
                | {"points": points}
            )
    results = about | {"sweeps": sweeps}
    (OUT / "growth.json").write_text(json.dumps(results, indent=1) + "\n")
    for sweep in sweeps:
        (OUT / f"growth-{sweep['name']}.svg").write_text(picture.growth(sweep, results))
    print(tables.growth(results))
    print(f"\n{OUT}/growth.json, growth-*.svg")


if __name__ == "__main__":
    main()
