"""A handler that waits for too long is given up in time: its mates are done, and it comes back."""

from bank import expect


def run(bank):
    payment = bank.payment(simulate="slow", simulate_receives=1)
    mate = bank.payment()
    slow, fast = bank.send(payment, mate)
    bank.wait_until_booked(payment, mate)
    bank.wait_until_empty()
    bank.expect_booked_once(payment, mate)
    for message_id, wanted in ((slow, ["failed", "completed"]), (fast, ["completed"])):
        outcomes = bank.outcomes_of(message_id)
        expect(outcomes == wanted, f"{outcomes} where {wanted} is right")
