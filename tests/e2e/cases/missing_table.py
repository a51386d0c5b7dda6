"""While a table is missing nothing is lost and the log names the cause; mended and redriven, all is done once."""

import json

from botocore.exceptions import ClientError

from bank import expect, note

MISSING = "a-table-that-is-not-there"
MAY_WRITE_IT = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "dynamodb:PutItem",
            "Resource": f"arn:*:dynamodb:*:*:table/{MISSING}",
        }
    ],
}


def run(bank):
    payments = [bank.payment() for _ in range(3)]
    right = bank.stack.environment()
    role = bank.stack.role()
    # Otherwise the role is refused before the table is looked for.
    bank.stack.iam.put_role_policy(
        RoleName=role, PolicyName=MISSING, PolicyDocument=json.dumps(MAY_WRITE_IT)
    )
    bank.stack.set_environment(right | {"PAYMENTS_TABLE": MISSING})
    try:
        sent = bank.send(*payments)
        bank.wait_for_dead_letters(len(payments))
        bank.wait_until_empty()
    finally:
        bank.stack.set_environment(right)
        bank.stack.iam.delete_role_policy(RoleName=role, PolicyName=MISSING)
    expect(not bank.payments(), "payments are booked without a table")
    expect(not bank.records(), "records are left of failed attempts")
    errors = [
        line["fields"]["error"]
        for line in bank.stack.outcomes()
        if line["fields"]["outcome"] == "failed" and MISSING in line["fields"].get("error", "")
    ]
    expect(len(errors) >= len(sent), "the log does not name the missing table in each failure")

    redrive(bank, len(payments))
    bank.wait_until_booked(*payments)
    bank.wait_until_empty()
    bank.expect_booked_once(*payments)
    bank.wait_for_dead_letters(0)


def redrive(bank, count):
    """Moves the dead letters back as they are."""
    try:
        attributes = bank.stack.sqs.get_queue_attributes(
            QueueUrl=bank.dead_letters, AttributeNames=["QueueArn"]
        )["Attributes"]
        bank.stack.sqs.start_message_move_task(SourceArn=attributes["QueueArn"])
    except ClientError as error:
        if error.response["Error"]["Code"] not in (
            "InvalidAction",
            "UnsupportedOperation",
            "AWS.SimpleQueueService.UnsupportedOperation",
            "InternalFailure",
            "NotImplemented",
        ):
            raise
        note("the endpoint has no StartMessageMoveTask: by receive, send, delete")
        for letter in bank.take_dead_letters(count):
            bank.stack.sqs.send_message(QueueUrl=bank.queue, MessageBody=letter["Body"])
            bank.delete_dead_letter(letter)
