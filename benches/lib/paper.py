"""Calculated, not measured: what queues of some sizes need of Lambda and DynamoDB, and cost.

    python3 benches/lib/paper.py            prints it; benches/run.sh publish puts it in BENCHMARKS.md

The numbers to put your own in place of are the first ones.
"""

import math

import tables

# US dollars. List prices as assumed here, for one Region; check the current price lists.
PRICE_OF_MILLION_WRITE_UNITS = 0.625
PRICE_OF_MILLION_INVOCATIONS = 0.20
PRICE_OF_GB_SECOND = 0.0000133334
MEMORY_GB = 0.25
# How long DynamoDB takes for one request, as a function sees it: measure your own.
WRITE_SECONDS = 0.005
TRANSACTION_SECONDS = 0.010

BATCH = 10
RATES = (1_000, 10_000, 100_000)
PARTITION_WRITE_UNITS = 1_000
NEW_TABLE_WRITE_UNITS = 4_000
TABLE_QUOTA_WRITE_UNITS = 40_000
MAPPING_CONCURRENCY = 1_250

# One business item and a record of up to 1 KB each. (requests a batch, seconds a batch, write
# units on the table of records, on the business table)
MODES = {
    "claim-first": (2 * BATCH, WRITE_SECONDS + TRANSACTION_SECONDS, 1 + 2, 2),
    "at-commit": (BATCH, TRANSACTION_SECONDS, 2, 2),
    "grouped": (1, TRANSACTION_SECONDS, 2, 2),
    "marker apart, one after another": (3 * BATCH, 3 * BATCH * WRITE_SECONDS, 2, 1),
}


def whole(value: float) -> str:
    return f"{math.ceil(value):,}"


def need() -> str:
    rows = []
    for rate in RATES:
        for mode, (requests, seconds, records, business) in MODES.items():
            on_records = rate * records
            if on_records > TABLE_QUOTA_WRITE_UNITS:
                first = "table quota"
            elif rate * seconds / BATCH > MAPPING_CONCURRENCY:
                first = "mapping"
            elif on_records > NEW_TABLE_WRITE_UNITS:
                first = "new table"
            else:
                first = "none"
            rows.append(
                [
                    f"{rate:,}/s, {mode}",
                    whole(rate * seconds / BATCH),
                    f"{rate * requests / BATCH:,.0f}",
                    f"{on_records:,}",
                    f"{rate * business:,}",
                    f"{whole(on_records / PARTITION_WRITE_UNITS)} + "
                    f"{whole(rate * business / PARTITION_WRITE_UNITS)}",
                    first,
                ]
            )
    head = ["", "invocations at once", "requests/s", "records, WCU/s", "business, WCU/s", "partitions", "first limit"]
    return tables.table(head, rows)


def cost() -> str:
    rows = []
    for mode, (_, seconds, records, business) in MODES.items():
        writes = (records + business) * PRICE_OF_MILLION_WRITE_UNITS
        invocations = PRICE_OF_MILLION_INVOCATIONS / BATCH
        duration = 1e6 / BATCH * seconds * MEMORY_GB * PRICE_OF_GB_SECOND
        total = writes + invocations + duration
        rows.append(
            [mode, str(records + business)]
            + [f"{value:.2f}" for value in (writes, invocations, duration, total)]
        )
    head = ["a million messages, US$", "WCU a message", "DynamoDB writes", "invocations", "duration", "together"]
    return tables.table(head, rows)


def main() -> None:
    print(need())
    print()
    print(cost())


if __name__ == "__main__":
    main()
