"""New code and a new configuration in the middle of a load lose nothing and double nothing."""

import io
import threading
import zipfile

from stack import WORK

MESSAGES = 400


def run(bank):
    payments = [bank.payment(account=bank.account(str(at % 5))) for at in range(MESSAGES)]
    right = bank.stack.environment()
    sender = threading.Thread(target=bank.send, args=payments)
    sender.start()
    try:
        booked(bank, MESSAGES // 4)
        bank.stack.functions.update_function_code(
            FunctionName=bank.stack.outputs["FunctionName"], ZipFile=package()
        )
        bank.stack.function_is_updated()
        booked(bank, MESSAGES // 2)
        bank.stack.set_environment(right | {"DEPLOYED": "again"})
    finally:
        sender.join()
        bank.stack.set_environment(right)
    bank.wait_until_booked(*payments, seconds=120)
    bank.wait_until_empty()
    bank.expect_booked_once(*payments)
    bank.wait_for_dead_letters(0)


def booked(bank, count):
    def look():
        there = len(bank.payments())
        return there >= count, f"{there} of {count} booked"

    bank.wait_for("part of the load", look)


def package() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        file = zipfile.ZipInfo("bootstrap")
        file.external_attr = 0o755 << 16
        archive.writestr(file, (WORK / "build" / "PaymentsFunction" / "bootstrap").read_bytes())
    return packed.getvalue()
