"""A payment that is sent once is booked once, and its message is gone."""


def run(bank):
    payment = bank.payment(amount=4000)
    bank.send(payment)
    bank.wait_until_booked(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)
