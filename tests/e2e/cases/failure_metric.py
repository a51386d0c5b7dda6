"""The metric filter of the template finds a failed outcome in the log, and no other."""

from bank import expect
from stack import as_json


def run(bank):
    filters = bank.stack.logs.describe_metric_filters(
        logGroupName=bank.stack.outputs["LogGroupName"]
    )["metricFilters"]
    patterns = {
        f["metricTransformations"][0]["metricName"]: f["filterPattern"] for f in filters
    }
    # { $.fields.outcome = "failed" }, read as CloudWatch Logs does: a path and a text.
    for metric, outcome in (("FailedOutcomes", "failed"), ("DuplicateOutcomes", "duplicate")):
        path, _, text = patterns[metric].strip("{ }").partition(" = ")
        lines = bank.stack.log_lines()
        found = [line for line in lines if at(line, path.strip()) == text.strip().strip('"')]
        wanted = [line for line in lines if f"message {outcome}" in line]
        expect(bool(wanted), f"no message was {outcome}: run this case with the others")
        expect(found == wanted, f"{metric} counts {len(found)} lines where {len(wanted)} are right")


def at(line, path):
    value = as_json(line)
    for name in path.removeprefix("$.").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
