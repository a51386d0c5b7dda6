"""Without its policy the function can write nothing: the log says so, and the messages wait. With it, all it does is allowed."""

from bank import Skipped, expect


def run(bank):
    payment = bank.payment()
    role, policy = attached(bank)
    bank.stack.iam.detach_role_policy(RoleName=role, PolicyArn=policy)
    try:
        (message_id,) = bank.send(payment)

        def look():
            outcomes = bank.outcomes_of(message_id)
            return bool(outcomes), "no outcome yet"

        bank.wait_for("the outcome without permission", look)
        if bank.outcomes_of(message_id) == ["completed"]:
            raise Skipped("this endpoint does not enforce what roles may do")
        expect(not bank.payments(), "the payment is booked without permission")
        errors = [
            line["fields"].get("error", "")
            for line in bank.stack.outcomes()
            if line["fields"]["outcome"] == "failed"
        ]
        expect(
            any("AccessDenied" in e and "dynamodb:PutItem" in e for e in errors),
            f"no failure names what was not allowed: {errors[-3:]}",
        )
    finally:
        bank.stack.iam.attach_role_policy(RoleName=role, PolicyArn=policy)
    bank.wait_until_booked(payment)
    bank.wait_until_empty()
    bank.expect_booked_once(payment)


def attached(bank):
    role = bank.stack.role()
    policies = bank.stack.iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    expect(len(policies) == 1, f"policies attached to the role: {policies}")
    return role, policies[0]["PolicyArn"]
