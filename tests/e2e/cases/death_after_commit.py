"""A function that dies after the commit and before its response has done its work; the redelivery does not repeat it."""

from bank import expect


def run(bank):
    payment = bank.payment(simulate="exit-after-commit")
    (message_id,) = bank.send(payment)
    bank.wait_until_booked(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)
    died = [line for line in bank.stack.log_lines() if "simulated exit after the commit" in line]
    expect(bool(died), "the function has not died, so that nothing is shown")
    outcomes = bank.outcomes_of(message_id)
    expect(outcomes[-1:] == ["duplicate"], f"the redelivery should be a duplicate: {outcomes}")
