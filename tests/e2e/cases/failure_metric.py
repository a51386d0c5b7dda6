"""The metric filters of the template find each failed and each duplicate outcome in the log, and no other."""

from bank import Skipped, expect
from stack import as_json


def run(bank):
    failing = bank.payment(simulate="error", simulate_receives=1)
    twice = bank.payment()
    bank.send(failing, twice, twice)
    bank.wait_until_booked(failing, twice)
    bank.wait_until_empty()

    lines = bank.stack.log_lines()
    if not any(as_json(line) for line in lines):
        raise Skipped("this endpoint does not pass the log format on: its log is text")
    filters = bank.stack.logs.describe_metric_filters(
        logGroupName=bank.stack.outputs["LogGroupName"]
    )["metricFilters"]
    patterns = {f["metricTransformations"][0]["metricName"]: f["filterPattern"] for f in filters}
    for metric, outcome in (("FailedOutcomes", "failed"), ("DuplicateOutcomes", "duplicate")):
        # { $.fields.outcome = "failed" }, read as CloudWatch Logs does: a path and a text.
        path, _, text = patterns[metric].strip("{ }").partition(" = ")
        found = [line for line in lines if at(line, path.strip()) == text.strip().strip('"')]
        wanted = [line for line in lines if f"message {outcome}" in line]
        expect(bool(wanted), f"the log tells of no message that was {outcome}")
        expect(found == wanted, f"{metric} counts {len(found)} lines where {len(wanted)} are right")


def at(line, path):
    value = as_json(line)
    for name in path.removeprefix("$.").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
