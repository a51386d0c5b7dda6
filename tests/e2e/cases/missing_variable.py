"""A function without its environment variable fails with a line that names it; its messages wait."""

from bank import expect


def run(bank):
    payment = bank.payment()
    right = bank.stack.environment()
    wrong = {name: value for name, value in right.items() if name != "IDEMPOTENCY_TABLE"}
    bank.stack.set_environment(wrong)
    try:
        bank.send(payment)
        sentence = "the environment variable IDEMPOTENCY_TABLE is not set"
        said = bank.stack.functions.invoke(
            FunctionName=bank.stack.outputs["FunctionName"], Payload=b'{"Records": []}'
        )
        expect("FunctionError" in said, "the invocation should fail")
        answer = said["Payload"].read().decode()

        def look():
            is_said = sentence in answer or any(sentence in line for line in bank.stack.log_lines())
            return is_said, "not in the log yet"

        bank.wait_for("the line that names the variable", look)
        expect(bank.messages_in(bank.queue) == 1, "the message is gone from the queue")
    finally:
        bank.stack.set_environment(right)
    bank.wait_until_booked(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)
