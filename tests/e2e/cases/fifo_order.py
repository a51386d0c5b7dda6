"""On the FIFO queue a failure in the middle holds up its own group; the order within each group is kept."""

import json

from bank import expect, spans

GROUPS = ("blue", "green")
LENGTH = 5
FAILS = ("blue", 2)


def run(bank):
    queue = bank.stack.outputs["FifoQueueUrl"]
    sent = {group: [] for group in GROUPS}
    all_payments = []
    for at in range(LENGTH):
        for group in GROUPS:
            failing = {"simulate": "error", "simulate_receives": 1} if (group, at) == FAILS else {}
            payment = bank.payment(account=bank.account(group), **failing)
            answer = bank.stack.sqs.send_message(
                QueueUrl=queue,
                MessageBody=json.dumps(payment),
                MessageGroupId=bank.account(group),
                MessageDeduplicationId=payment["payment_id"],
            )
            sent[group].append(answer["MessageId"])
            all_payments.append(payment)
    bank.wait_until_booked(*all_payments)
    bank.wait_until_empty(queue)
    bank.expect_booked_once(*all_payments)

    outcomes = bank.stack.outcomes("FifoLogGroupName")
    for group, ids in sent.items():
        done = [
            (message_id(line), line["fields"]["outcome"])
            for line in outcomes
            if message_id(line) in ids
        ]
        wanted = [(id, "completed") for id in ids]
        if group == FAILS[0]:
            at = FAILS[1]
            wanted.insert(at, (ids[at], "failed"))
        expect(done == wanted, f"group {group}: {done} where {wanted} is right")


def message_id(line):
    return next((span["message_id"] for span in spans(line) if "message_id" in span), None)
