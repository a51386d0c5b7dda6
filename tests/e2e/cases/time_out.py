"""A function that Lambda ends at its time-out has done nothing of the message; the redelivery does it."""

from bank import expect


def run(bank):
    payment = bank.payment(simulate="stall", simulate_receives=1)
    (message_id,) = bank.send(payment)
    bank.wait_until_booked(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)
    # The library could not say a word about the first receive: the second one's outcome is the
    # only one in the log.
    outcomes = bank.outcomes_of(message_id)
    expect(outcomes == ["completed"], f"the function was not ended: {outcomes}")
