"""What a case does and sees: it sends payments, and looks at tables, queues and logs."""

import itertools
import json
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from stack import Stack

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_PROGRESS_LINES = 5


class Failed(Exception):
    """What a case expected and did not find."""


class Skipped(Exception):
    """Why a case can't be shown on this endpoint."""


def expect(holds: bool, otherwise: str):
    if not holds:
        raise Failed(otherwise)


class Bank:
    """The deployed function seen by one case. Its payments and accounts are of this case alone."""

    def __init__(self, stack: Stack, case: str):
        self.stack = stack
        # Messages are of this run, in case the endpoint has seen another one.
        self.prefix = f"{case}-{secrets.token_hex(3)}"
        self.numbers = itertools.count(1)
        self.queue = stack.outputs["QueueUrl"]
        self.dead_letters = stack.outputs["DeadLetterQueueUrl"]

    def clear(self):
        """Starts without the messages that a failed case has left."""
        for queue in (self.queue, self.dead_letters):
            if self.messages_in(queue):
                self.stack.sqs.purge_queue(QueueUrl=queue)
                self.wait_until_empty(queue)

    # -- sending

    def account(self, name: str = "account") -> str:
        return f"{self.prefix}-{name}"

    def payment(self, amount: int = 100, account: str | None = None, **more) -> dict:
        """The body of a new payment."""
        number = next(self.numbers)
        return {
            "payment_id": f"{self.prefix}-{number:04}",
            "account": account or self.account(),
            "amount": amount,
        } | more

    def send(self, *payments: dict) -> list[str]:
        """Sends each as a message of the standard queue; the message ids."""
        batches = [payments[at : at + 10] for at in range(0, len(payments), 10)]
        with ThreadPoolExecutor(8) as senders:
            return [id for ids in senders.map(self.send_batch, batches) for id in ids]

    def send_batch(self, payments) -> list[str]:
        entries = [{"Id": str(at), "MessageBody": json.dumps(p)} for at, p in enumerate(payments)]
        sent = self.stack.sqs.send_message_batch(QueueUrl=self.queue, Entries=entries)
        expect(not sent.get("Failed"), f"the queue refused messages: {sent.get('Failed')}")
        ids = {entry["Id"]: entry["MessageId"] for entry in sent["Successful"]}
        return [ids[str(at)] for at in range(len(payments))]

    # -- looking

    def balance(self, account: str | None = None) -> int:
        key = {"id": {"S": account or self.account()}}
        table = self.stack.outputs["AccountsTableName"]
        item = self.stack.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)
        return int(item.get("Item", {}).get("balance", {}).get("N", 0))

    def payments(self) -> dict[str, dict]:
        """The booked payments of this case, by id."""
        return {item["id"]["S"]: item for item in self.items("PaymentsTableName")}

    def records(self) -> list[dict]:
        return self.items("IdempotencyTableName")

    def items(self, output: str) -> list[dict]:
        """This case's items of a table."""
        pages = self.stack.dynamodb.get_paginator("scan").paginate(
            TableName=self.stack.outputs[output], ConsistentRead=True
        )
        return [i for page in pages for i in page["Items"] if self.prefix in i["id"]["S"]]

    def messages_in(self, queue: str) -> int:
        """All of them: visible, in flight and delayed."""
        names = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ]
        found = self.stack.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)
        return sum(int(count) for count in found["Attributes"].values())

    def outcomes_of(self, message_id: str, output: str = "LogGroupName") -> list[str]:
        """What the log says became of a message, delivery by delivery."""
        return [
            line["fields"]["outcome"]
            for line in self.stack.outcomes(output)
            if any(span.get("message_id") == message_id for span in spans(line))
        ]

    # -- waiting

    def wait_for(self, what: str, look, seconds: float = 60):
        """Waits until `look` returns (True, …); its second value says how far it is."""
        started = time.monotonic()
        next_line = started + SECONDS_BETWEEN_PROGRESS_LINES
        while True:
            is_there, progress = look()
            now = time.monotonic()
            if is_there:
                return
            if now - started > seconds:
                raise Failed(f"{what}: not within {seconds:g} s ({progress})")
            if now >= next_line:
                note(f"waiting for {what}: {progress}, {now - started:.0f} of {seconds:g} s")
                next_line += SECONDS_BETWEEN_PROGRESS_LINES
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def wait_until_booked(self, *payments: dict, seconds: float = 60):
        wanted = {payment["payment_id"] for payment in payments}

        def look():
            there = len(wanted & self.payments().keys())
            return there == len(wanted), f"{there} of {len(wanted)} booked"

        self.wait_for("payments", look, seconds)

    def wait_until_empty(self, queue: str | None = None, seconds: float = 60):
        """Until nothing is in the queue, twice in a row: its numbers are approximate."""
        seen = [1]

        def look():
            seen.append(self.messages_in(queue or self.queue))
            return seen[-2:] == [0, 0], f"{seen[-1]} messages left"

        self.wait_for("an empty queue", look, seconds)

    def wait_for_dead_letters(self, count: int, seconds: float = 60, queue: str | None = None):
        def look():
            there = self.messages_in(queue or self.dead_letters)
            return there == count, f"{there} of {count} messages in the dead-letter queue"

        self.wait_for("dead letters", look, seconds)

    # -- the point of it all

    def expect_booked_once(self, *payments: dict):
        """Every payment is in the tables once, its account has its amount once, and no more."""
        facts = {payment["payment_id"]: payment for payment in payments}
        booked = self.payments()
        for id, payment in facts.items():
            expect(id in booked, f"payment {id} is not booked")
            amount = int(booked[id]["amount"]["N"])
            expect(amount == payment["amount"], f"payment {id} is booked with {amount}")
        balances = Counter()
        for payment in facts.values():
            balances[payment["account"]] += payment["amount"]
        for account, wanted in balances.items():
            balance = self.balance(account)
            expect(balance == wanted, f"account {account} has {balance}, where {wanted} is right")
        open_records = [r["id"]["S"] for r in self.records() if r["status"]["S"] != "COMPLETED"]
        expect(not open_records, f"records that are not completed: {open_records}")

    def take_dead_letters(self, count: int) -> list[dict]:
        """Receives them, for a person to look at. They stay until they are deleted."""
        taken = {}
        give_up = time.monotonic() + 20
        while len(taken) < count and time.monotonic() < give_up:
            received = self.stack.sqs.receive_message(
                QueueUrl=self.dead_letters,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=1,
                VisibilityTimeout=30,
                AttributeNames=["All"],
            )
            for message in received.get("Messages", []):
                taken[message["MessageId"]] = message
        expect(len(taken) == count, f"{len(taken)} dead letters where {count} are right")
        return list(taken.values())

    def delete_dead_letter(self, message: dict):
        self.stack.sqs.delete_message(
            QueueUrl=self.dead_letters, ReceiptHandle=message["ReceiptHandle"]
        )


def spans(line: dict) -> list[dict]:
    """The spans of a JSON log line, outermost first."""
    found = list(line.get("spans", []))
    if "span" in line:
        found.append(line["span"])
    return found


def note(text: str):
    print(f"        {text}", file=sys.stderr, flush=True)
