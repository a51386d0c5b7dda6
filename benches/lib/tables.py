"""Tables of the figures, as Markdown that reads well in a terminal too."""



def table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells):
        first, *others = zip(cells, widths)
        padded = [first[0].ljust(first[1])] + [cell.rjust(width) for cell, width in others]
        return "| " + " | ".join(padded) + " |"

    rule = "| " + " | ".join(
        "-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)
    )
    return "\n".join([line(head), rule + " |", *map(line, rows)])


def number(value) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def label(row: dict) -> str:
    return f"{row['system']}, {row['mode']}" if row["mode"] else row["system"]


def comparison(results: list[dict], more: dict) -> str:
    parts = []
    for latency in sorted({row["latency_ms"] for row in results}):
        rows = [row for row in results if row["latency_ms"] == latency]
        parts.append(f"Batch of {rows[0]['batch']}, {latency} ms added to each request:")
        parts.append(
            table(
                ["", "messages/s", "requests/message", "CPU µs/message", "peak MB", "cold start ms"],
                [
                    [
                        label(row),
                        number(row["messages_per_s"]),
                        number(row["requests_per_message"]),
                        number(row["cpu_us_per_message"]),
                        number(row["peak_mb"]),
                        number(row["cold_start_ms"]),
                    ]
                    for row in rows
                ],
            )
        )
        parts.append("Ratios, ours to theirs:")
        parts.append(ratios(rows))
    parts.append("CPU with and without a line in the log for each message, µs a message, 0 ms, runs of their own:")
    parts.append(
        table(
            ["", "at WARN", "at INFO"],
            [
                [f"lambda-idempotency, {row['mode']}"]
                + [number(row["cpu_us_per_message"][level]) for level in ("WARN", "INFO")]
                for row in more["log_lines"]
            ],
        )
    )
    parts.append("Requests for a duplicate:")
    parts.append(
        table(
            ["", "requests"],
            [[label(row), number(row["requests_per_duplicate"])] for row in more["duplicates"]],
        )
    )
    parts.append("Memory for one large event:")
    parts.append(
        table(
            ["", "event", "messages", "event MB", "idle MB", "peak MB", "above idle / event"],
            [
                [
                    label(row),
                    row["shape"],
                    number(row["messages"]),
                    number(row["event_mb"]),
                    number(row["idle_mb"]),
                    number(row["peak_mb"]),
                    number(row["above_idle_per_event_byte"]),
                ]
                for row in more["memory"]
            ],
        )
    )
    parts.append(f"The sample function's binary, `cargo build --release` and stripped: {number(more['binary_mb'])} MB.")
    return "\n\n".join(parts)


def ratios(rows: list[dict]) -> str:
    ours = [row for row in rows if row["system"] == "lambda-idempotency"]
    lines = []
    for our in ours:
        for their in rows:
            by_hand_alike = their["system"] == "hand-written" and their["mode"] == our["mode"]
            if not by_hand_alike and not their["system"].startswith("powertools"):
                continue

            def ratio(name):
                if not their[name] or our[name] is None:
                    return "-"
                return f"{our[name] / their[name]:.3g}x"

            lines.append(
                [
                    f"{our['mode']} / {label(their)}",
                    ratio("messages_per_s"),
                    ratio("requests_per_message"),
                    ratio("cpu_us_per_message"),
                    ratio("peak_mb"),
                    ratio("cold_start_ms"),
                ]
            )
    return table(["", "messages/s", "requests", "CPU", "peak memory", "cold start"], lines)


def about(more: dict) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(more["versions"].items()))
    return (
        f"{more['date']}, commit {more['commit']}, {more['processor']}, {more['cores']} cores, "
        f"{more['system']}; {versions}."
    )


def growth(growth_results: dict) -> str:
    parts = []
    for sweep in growth_results["sweeps"]:
        parts.append(f"{sweep['title']}:")
        rows = [
            [
                f"{point['mode']}, {point['x']:,} {sweep['unit']}",
                number(point["messages_per_s"]),
                number(point["requests_per_message"]),
                number(point["cpu_us_per_message"]),
                number(point["peak_mb"]),
                ", ".join(point["grows_faster"]) or "",
            ]
            for point in sweep["points"]
        ]
        head = ["", "messages/s", "requests/message", "CPU µs/message", "peak MB", "grows faster than its input"]
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def instructions(rows: list[dict]) -> str:
    return table(
        ["", "batch of 10", "an event of 6 MB"],
        [[row["label"], number(row["batch_of_10"]), number(row["event_of_6_mb"])] for row in rows],
    )
