"""A poison message is in the dead-letter queue after 5 receives; its batch mates are done once. Corrected and moved back, under its new id, it is done once."""

import json

from bank import expect

MAX_RECEIVE_COUNT = 5


def run(bank):
    poison = bank.payment(amount=250, simulate="error")
    mates = [bank.payment() for _ in range(9)]
    poison_id = bank.send(*mates[:4], poison, *mates[4:])[4]
    bank.wait_until_booked(*mates)
    bank.wait_for_dead_letters(1)
    bank.wait_until_empty()
    bank.expect_booked_once(*mates)
    expect(poison["payment_id"] not in bank.payments(), "the poison message is booked")
    outcomes = bank.outcomes_of(poison_id)
    expect(outcomes == ["failed"] * MAX_RECEIVE_COUNT, f"receives of the poison message: {outcomes}")

    # A person looks at it and corrects it. StartMessageMoveTask can't change a message.
    (letter,) = bank.take_dead_letters(1)
    corrected = json.loads(letter["Body"])
    expect(corrected == poison, f"another message than was sent: {corrected}")
    del corrected["simulate"]
    (new_id,) = bank.send(corrected)
    bank.delete_dead_letter(letter)
    expect(new_id != poison_id, "a message that is sent again has a new id")
    bank.wait_until_booked(corrected)
    bank.wait_until_empty()
    bank.expect_booked_once(*mates, corrected)
    bank.wait_for_dead_letters(0)
