"""Pictures of the figures as SVG, readable on a light and on a dark page."""

import math
from xml.sax.saxutils import escape

import tables

OURS = "#0f766e"
OTHERS = "#94a3b8"
BY_MODE = {"claim-first": "#0f766e", "at-commit": "#b45309", "grouped": "#6d28d9"}
NAMES = {
    "lambda-idempotency": "this library",
    "hand-written": "by hand (Rust)",
    "powertools-python": "Powertools (Python)",
    "powertools-typescript": "Powertools (TypeScript)",
}
WIDTH = 960


def comparison(results: list[dict], more: dict) -> str:
    latencies = sorted({row["latency_ms"] for row in results})
    panels = []
    for latency in latencies:
        rows = [row for row in results if row["latency_ms"] == latency]
        panels.append((f"messages/s, {latency} ms added (more is better)", rows, "messages_per_s"))
    rows = [row for row in results if row["latency_ms"] == latencies[0]]
    panels += [
        ("requests a message (less is better)", rows, "requests_per_message"),
        ("CPU µs a message (less is better)", rows, "cpu_us_per_message"),
        ("peak memory, MB (less is better)", rows, "peak_mb"),
        ("cold start, ms to the first response (less is better)", rows, "cold_start_ms"),
    ]
    panel_height = 34 + 20 * len(rows)
    drawn = []
    for index, (title, rows, name) in enumerate(panels):
        x = 20 + (index % 2) * (WIDTH // 2)
        y = 64 + (index // 2) * (panel_height + 14)
        drawn.append(bars(x, y, WIDTH // 2 - 40, title, rows, name))
    height = 64 + math.ceil(len(panels) / 2) * (panel_height + 14) + 64
    title = f"SQS batches of {rows[0]['batch']}, one write a message, one warm environment"
    return page(title, height, drawn, more)


def bars(x: int, y: int, width: int, title: str, rows: list[dict], name: str) -> str:
    names = 172
    highest = max((row[name] or 0) for row in rows) or 1
    parts = [text(x, y + 12, title, weight="bold")]
    for index, row in enumerate(rows):
        top = y + 24 + 20 * index
        value = row[name] or 0
        length = max(1.0, value / highest * (width - names - 56))
        color = OURS if row["system"] == "lambda-idempotency" else OTHERS
        parts.append(text(x + names - 8, top + 11, short(row), anchor="end"))
        parts.append(
            f'<rect x="{x + names}" y="{top}" width="{length:.1f}" height="14" rx="2" fill="{color}"/>'
        )
        parts.append(text(x + names + length + 6, top + 11, tables.number(row[name])))
    return "".join(parts)


def short(row: dict) -> str:
    name = NAMES[row["system"]]
    return f"{name}, {row['mode']}" if row["mode"] else name


def growth(sweep: dict, more: dict) -> str:
    panels = [
        ("messages/s", "messages_per_s"),
        ("requests a message", "requests_per_message"),
        ("CPU µs a message", "cpu_us_per_message"),
        ("peak memory, MB", "peak_mb"),
    ]
    drawn = []
    for index, (mode, color) in enumerate(BY_MODE.items()):
        x = 20 + 130 * index
        drawn.append(f'<rect x="{x}" y="50" width="14" height="4" fill="{color}"/>')
        drawn.append(text(x + 20, 56, mode))
    for index, (title, name) in enumerate(panels):
        x = 20 + (index % 2) * (WIDTH // 2)
        y = 84 + (index // 2) * 236
        drawn.append(lines(x, y, WIDTH // 2 - 40, 210, title, sweep, name))
    return page(sweep["title"], 84 + 2 * 236 + 50, drawn, more)


def lines(x: int, y: int, width: int, height: int, title: str, sweep: dict, name: str) -> str:
    """Both axes are logarithmic: what grows as its input is a straight line of slope one."""
    points = sweep["points"]
    inputs = sorted({point["x"] for point in points})
    values = [point[name] for point in points]
    left, right = x + 46, x + width - 24
    top, bottom = y + 24, y + height - 24
    low, high = math.log(inputs[0]), math.log(inputs[-1])
    # At least a factor of four, so that noise does not look like growth.
    floor, ceiling = math.log(min(values)), math.log(max(values))
    middle, half = (floor + ceiling) / 2, max((ceiling - floor) / 2, math.log(4) / 2)

    def across(value):
        return left + (math.log(value) - low) / (high - low) * (right - left)

    def up(value):
        return bottom - (math.log(value) - middle + half) / (2 * half) * (bottom - top)

    parts = [
        text(x, y + 12, title, weight="bold"),
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#cbd5e1"/>',
    ]
    for value in inputs:
        parts.append(text(across(value), bottom + 16, f"{value:,}", anchor="middle"))
    for value in (math.exp(middle - half), math.exp(middle + half)):
        parts.append(text(left - 6, up(value) + 4, tables.number(value), anchor="end"))
    for mode, color in BY_MODE.items():
        of_mode = [point for point in points if point["mode"] == mode]
        path = " ".join(f"{across(p['x']):.1f},{up(p[name]):.1f}" for p in of_mode)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for point in of_mode:
            parts.append(
                f'<circle cx="{across(point["x"]):.1f}" cy="{up(point[name]):.1f}" r="3" fill="{color}">'
                f"<title>{tables.number(point[name])} at {point['x']:,}</title></circle>"
            )
    return "".join(parts)


def page(title: str, height: int, drawn: list[str], more: dict) -> str:
    notes = wrapped(("Quick run, no figures to quote. " if more["is_quick"] else "") + tables.about(more))
    height += 14 * len(notes) - 28
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(20, 32, title, weight="bold", size=17),
        *drawn,
    ]
    for index, note in enumerate(notes):
        y = height - 14 * (len(notes) - index)
        parts.append(text(20, y, note, size=10, color="#64748b"))
    return "\n".join([*parts, "</svg>\n"])


def wrapped(note: str, columns: int = 165) -> list[str]:
    lines = [""]
    for word in note.split():
        if len(lines[-1]) + len(word) >= columns:
            lines.append("")
        lines[-1] += word + " "
    return lines


def text(x, y, content, anchor="start", weight="normal", size=12, color="#0f172a") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size}" fill="{color}">{escape(content)}</text>'
    )
