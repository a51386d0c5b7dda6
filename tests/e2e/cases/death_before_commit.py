"""A function that dies with its work prepared and not committed has done nothing; the redelivery does it."""

from bank import expect


def run(bank):
    payment = bank.payment(simulate="exit-before-commit", simulate_receives=1)
    mate = bank.payment()
    bank.send(payment, mate)
    bank.wait_until_booked(payment, mate)
    bank.wait_until_empty()
    bank.expect_booked_once(payment, mate)
    died = [line for line in bank.stack.log_lines() if "simulated exit before the commit" in line]
    expect(bool(died), "the function has not died, so that nothing is shown")
