"""Powertools for AWS Lambda (Python), used as its documentation shows for SQS batches: a batch
processor, an idempotent function a record, and one business write with boto3.

The driver's side of a measurement is that of the Rust drivers (harness/src/session.rs).
"""

import json
import sys
import time
from types import SimpleNamespace

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

processor = BatchProcessor(event_type=EventType.SQS)
persistence = DynamoDBPersistenceLayer(table_name="bench-records")
config = IdempotencyConfig(event_key_jmespath="messageId", expires_after_seconds=28 * 24 * 60 * 60)
accounts = boto3.resource("dynamodb").Table("bench-accounts")


@idempotent_function(data_keyword_argument="record", config=config, persistence_store=persistence)
def record_handler(record: SQSRecord) -> dict:
    payment = record.json_body
    accounts.update_item(
        Key={"id": payment["account"]},
        UpdateExpression="ADD balance :amount",
        ExpressionAttributeValues={":amount": payment["amount"]},
    )
    return {"payment_id": payment["payment_id"]}


def lambda_handler(event: dict, context) -> dict:
    config.register_lambda_context(context)
    return process_partial_response(
        event=event, record_handler=record_handler, processor=processor, context=context
    )


def invoke(event: bytes) -> int:
    """One invocation, from the event's JSON to the response's; how many messages failed."""
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 300_000)
    response = lambda_handler(json.loads(event), context)
    json.dumps(response)
    return len(response["batchItemFailures"])


def main() -> None:
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    with open(arguments["--events"], "rb") as events:
        for _ in range(int(arguments["--warm"])):
            invoke(next(events))
        print("ready", flush=True)
        sys.stdin.readline()
        start = time.monotonic()
        failed = sum(invoke(event) for event in events)
        seconds = time.monotonic() - start
    print(json.dumps({"seconds": seconds, "failed": failed}), flush=True)
    sys.stdin.read()


main()
