"""A panic fails its own message only; the message's next receive does it."""

from bank import expect


def run(bank):
    payment = bank.payment(simulate="panic", simulate_receives=1)
    mates = [bank.payment() for _ in range(4)]
    first, *others = bank.send(payment, *mates)
    bank.wait_until_booked(payment, *mates)
    bank.wait_until_empty()
    bank.expect_booked_once(payment, *mates)
    outcomes = bank.outcomes_of(first)
    expect(outcomes == ["failed", "completed"], f"of the message that panics: {outcomes}")
    for mate in others:
        outcomes = bank.outcomes_of(mate)
        expect(outcomes == ["completed"], f"of a message beside it: {outcomes}")
