"""The deployed template: how it gets there, and what it is made of."""

import json
import os
import platform
import re
import subprocess
from pathlib import Path

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "e2e"

STACK_NAME = "payments-e2e"
FUNCTION_TIMEOUT = 2
# The template's is 312 s, so that five receives would take half an hour. More than the function's
# time-out: a claim has ended by the time its message comes back.
VISIBILITY_TIMEOUT = 3

PARAMETERS = {
    "Architecture": "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64",
    "FunctionTimeout": FUNCTION_TIMEOUT,
    "MaximumConcurrency": 4,
    "WithFifoQueue": "true",
    "DeletionProtection": "false",
    "SimulateFailures": "true",
}


class Stack:
    """Clients for one endpoint, and the deployed stack's outputs as attributes' values."""

    def __init__(self, endpoint: str):
        self.endpoint = endpoint
        self.region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self.outputs: dict[str, str] = {}
        # One more connection than there are senders.
        options = Config(max_pool_connections=16, retries={"mode": "standard"})

        def client(service):
            return boto3.client(
                service, endpoint_url=endpoint, region_name=self.region, config=options
            )

        self.cloudformation = client("cloudformation")
        self.dynamodb = client("dynamodb")
        self.iam = client("iam")
        self.functions = client("lambda")
        self.logs = client("logs")
        self.sqs = client("sqs")

    def build(self):
        sam("build", "--build-dir", WORK / "build", "--parameter-overrides", *overrides())

    def deploy(self):
        template = WORK / "build" / "template.yaml"
        if not template.exists():
            raise RuntimeError("nothing is built yet: run without --no-build")
        sam(
            "deploy",
            "--template-file", template,
            "--stack-name", STACK_NAME,
            "--region", self.region,
            "--resolve-s3",
            "--capabilities", "CAPABILITY_IAM",
            "--no-confirm-changeset",
            "--no-fail-on-empty-changeset",
            "--no-progressbar",
            "--parameter-overrides", *overrides(),
            endpoint=self.endpoint,
        )  # fmt: skip
        self.find()

    def find(self):
        """Reads the outputs of the stack that is there."""
        stacks = self.cloudformation.describe_stacks(StackName=STACK_NAME)["Stacks"]
        self.outputs = {o["OutputKey"]: o["OutputValue"] for o in stacks[0]["Outputs"]}

    def template(self) -> str:
        """The template as it was deployed: packaged, and not yet transformed."""
        found = self.cloudformation.get_template(StackName=STACK_NAME, TemplateStage="Original")
        body = found["TemplateBody"]
        return body if isinstance(body, str) else json.dumps(body)

    def prepare(self) -> list[str]:
        """Shortens the times, and does by hand what the endpoint left undone. Says what."""
        for queue in ("QueueUrl", "FifoQueueUrl"):
            self.sqs.set_queue_attributes(
                QueueUrl=self.outputs[queue],
                Attributes={"VisibilityTimeout": str(VISIBILITY_TIMEOUT)},
            )
        done = [f"visibility timeout of the queues: {VISIBILITY_TIMEOUT} s"]

        table = self.outputs["IdempotencyTableName"]
        ttl = self.dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
            self.dynamodb.update_time_to_live(
                TableName=table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": "expiration"},
            )
            done.append("time to live of the records: the endpoint ignored the template's")

        # ministack keeps the parameter as the text that it is in the template, and stops polling;
        # it can't be seen from here. Elsewhere this sets what is set.
        self.functions.update_event_source_mapping(
            UUID=self.outputs["MappingId"],
            ScalingConfig={"MaximumConcurrency": PARAMETERS["MaximumConcurrency"]},
        )
        done.append("MaximumConcurrency: as a number, where the parameter was kept as a text")
        return done

    def function_is_updated(self):
        """Waits until a change of the function's configuration or code has arrived."""
        self.functions.get_waiter("function_updated_v2").wait(
            FunctionName=self.outputs["FunctionName"],
            WaiterConfig={"Delay": 1, "MaxAttempts": 60},
        )

    def role(self) -> str:
        """The name of the function's role."""
        configuration = self.functions.get_function_configuration(
            FunctionName=self.outputs["FunctionName"]
        )
        return configuration["Role"].rsplit("/", 1)[-1]

    def environment(self) -> dict[str, str]:
        configuration = self.functions.get_function_configuration(
            FunctionName=self.outputs["FunctionName"]
        )
        return configuration["Environment"]["Variables"]

    def set_environment(self, variables: dict[str, str]):
        self.functions.update_function_configuration(
            FunctionName=self.outputs["FunctionName"], Environment={"Variables": variables}
        )
        self.function_is_updated()

    def log_events(self, output: str = "LogGroupName") -> list[dict]:
        """Everything that the function has logged, oldest first."""
        events = []
        pages = self.logs.get_paginator("filter_log_events")
        for page in pages.paginate(logGroupName=self.outputs[output]):
            events += page["events"]
        # Stable: the lines of one moment stay in their order.
        return sorted(events, key=lambda event: event["timestamp"])

    def log_lines(self, output: str = "LogGroupName") -> list[str]:
        return [event["message"].rstrip("\n") for event in self.log_events(output)]

    def outcomes(self, output: str = "LogGroupName") -> list[dict]:
        """The log's lines that have an outcome."""
        lines = [as_json(line) or from_text(line) for line in self.log_lines(output)]
        return [line for line in lines if line and "outcome" in line.get("fields", {})]

    def invocations(self) -> dict[str, tuple[float, float]]:
        """When each invocation began and ended, in milliseconds, by request id."""
        times = {}
        for event in self.log_events():
            # As text from ministack, as JSON from Lambda if that is the log format.
            text = re.match(r"REPORT RequestId: (\S+)\s+Duration: ([\d.]+) ms", event["message"])
            json_line = as_json(event["message"])
            if text:
                request, took = text.group(1), float(text.group(2))
            elif json_line and json_line.get("type") == "platform.report":
                record = json_line["record"]
                request, took = record["requestId"], float(record["metrics"]["durationMs"])
            else:
                continue
            times[request] = (event["timestamp"] - took, event["timestamp"])
        return times


def as_json(line: str) -> dict | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def from_text(line: str) -> dict | None:
    """What is needed of a line of an endpoint that does not pass the log format on."""
    found = dict(re.findall(r'\b(outcome|message_id|requestId)="([^"]*)"', line))
    if "outcome" not in found:
        return None
    return {"fields": {"outcome": found.pop("outcome"), "error": line}, "spans": [found]}


def overrides() -> list[str]:
    return [f"{name}={value}" for name, value in PARAMETERS.items()]


def sam(*arguments, endpoint: str | None = None):
    """Runs sam; its output is of interest only if it fails."""
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0"}
    # The build is found in the workspace's own target directory.
    environment.pop("CARGO_TARGET_DIR", None)
    if endpoint:
        environment["AWS_ENDPOINT_URL"] = endpoint
    log = WORK / f"sam-{arguments[0]}.log"
    with log.open("w") as output:
        ended = subprocess.run(
            ["sam", *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    if ended.returncode != 0:
        tail = log.read_text().splitlines()[-30:]
        raise RuntimeError("\n".join([f"sam {arguments[0]} failed:", *tail, f"all of it: {log}"]))
