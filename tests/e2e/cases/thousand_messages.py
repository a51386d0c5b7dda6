"""1,000 messages with 20 % duplicates, several invocations at once: every balance is exact, the queues are empty."""

import random

from bank import expect, spans

MESSAGES = 1000
DUPLICATES = 200
ACCOUNTS = 7


def run(bank):
    dice = random.Random(7)
    payments = [
        bank.payment(amount=dice.randint(1, 9999), account=bank.account(str(at % ACCOUNTS)))
        for at in range(MESSAGES - DUPLICATES)
    ]
    messages = payments + dice.sample(payments, DUPLICATES)
    dice.shuffle(messages)
    sent = set(bank.send(*messages))
    bank.wait_until_empty(seconds=240)
    bank.expect_booked_once(*payments)
    expect(len(bank.payments()) == len(payments), "more payments are booked than there are")
    expect(bank.messages_in(bank.dead_letters) == 0, "messages are in the dead-letter queue")
    expect(most_at_once(bank, sent) >= 2, "never two invocations at once, so that less is shown")


def most_at_once(bank, sent):
    """How many invocations that handled these messages overlapped."""
    of_load = set()
    for line in bank.stack.outcomes():
        fields = {name: value for span in spans(line) for name, value in span.items()}
        if fields.get("message_id") in sent:
            of_load.add(fields.get("requestId"))
    times = [at for request, at in bank.stack.invocations().items() if request in of_load]
    changes = [(began, 1) for began, _ in times] + [(ended, -1) for _, ended in times]
    running = most = 0
    # Where one ends in the millisecond in which the next begins, the two did not overlap.
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most
