"""A payment that is sent as two messages is booked once: its id is the key, not the message's."""


def run(bank):
    payment = bank.payment(amount=4000)
    first, second = bank.send(payment, payment)
    assert first != second
    bank.wait_until_booked(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)
    # A third time, when everything is done.
    bank.send(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)
