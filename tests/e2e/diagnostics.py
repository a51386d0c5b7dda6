"""What is printed when a case fails: the function's log, the records, the queues."""

import sys

LOG_LINES = 40


def show(bank):
    out = sys.stderr
    for section in (queues, records, log):
        try:
            for line in section(bank):
                print(f"        {line}", file=out)
        except Exception as error:  # noqa: BLE001 - a diagnosis must not hide the failure
            print(f"        can't be read: {error!r}", file=out)
    out.flush()


def queues(bank):
    yield "-- queues"
    for name in ("QueueUrl", "DeadLetterQueueUrl", "FifoQueueUrl", "FifoDeadLetterQueueUrl"):
        found = bank.stack.sqs.get_queue_attributes(
            QueueUrl=bank.stack.outputs[name], AttributeNames=["All"]
        )["Attributes"]
        counts = {
            key.removeprefix("ApproximateNumberOf"): value
            for key, value in found.items()
            if key.startswith("ApproximateNumberOf")
        }
        yield f"{name}: {counts}"


def records(bank):
    for title, output in (
        ("records", "IdempotencyTableName"),
        ("payments", "PaymentsTableName"),
        ("accounts", "AccountsTableName"),
    ):
        yield f"-- {title} of this case"
        for item in bank.items(output):
            yield str({name: next(iter(value.values())) for name, value in item.items()})


def log(bank):
    for output in ("LogGroupName", "FifoLogGroupName"):
        yield f"-- the last {LOG_LINES} lines of {output}"
        yield from bank.stack.log_lines(output)[-LOG_LINES:]
