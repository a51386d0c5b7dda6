"""The store and the drivers as processes, and what one run of a driver takes."""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

# What a driver inherits is fixed: no proxy, no profile, no debug switch of the caller's.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "AWS_REGION": "eu-west-1",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_EC2_METADATA_DISABLED": "true",
    # As Lambda's runtimes of Node.js and Python have it.
    "NODE_ENV": "production",
    "NODE_NO_WARNINGS": "1",
    "POWERTOOLS_SERVICE_NAME": "bench",
    "NO_PROXY": "127.0.0.1",
    # Of a message that is done nobody logs a line then: Powertools and the loop by hand have none.
    "AWS_LAMBDA_LOG_LEVEL": "WARN",
}


class Store:
    """The embedded DynamoDB behind its proxy."""

    def __init__(self, program: Path):
        self.program = program
        self.latency = "latency 0"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.endpoint = self.process.stdout.readline().strip()
        if not self.endpoint:
            raise SystemExit("the store did not start")

    def renew(self):
        """A new process of the same store: it keeps every client token for ten minutes and gets slower
        with each, which would count against whoever comes later."""
        self.stop()
        self.start()
        self.tell(self.latency)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)

    def tell(self, command: str):
        if command.startswith("latency"):
            self.latency = command
        self.process.stdin.write(command + "\n")
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the store ended at {command!r}")
        return json.loads(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@dataclass(frozen=True)
class System:
    """One of the systems in one of its modes."""

    name: str
    mode: str | None
    command: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.name} {self.mode}" if self.mode else self.name


@dataclass(frozen=True)
class Run:
    """What one run of a driver took, from `go` to its answer; the requests by operation."""

    messages: int
    seconds: float
    cpu_seconds: float
    requests: dict[str, int]
    first_response_ms: float
    idle_mb: float
    peak_mb: float
    rows: dict

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds

    @property
    def requests_per_message(self) -> float:
        return sum(self.requests.values()) / self.messages

    @property
    def cpu_us_per_message(self) -> float:
        return self.cpu_seconds / self.messages * 1e6


def run(
    store: Store, system: System, events: Path, warm: int, messages: int, extra=(), environment=None
) -> Run:
    """Drives `system` through `events`: `warm` of them unmeasured, then the others, which hold
    `messages` messages. `environment` has more of it, or other values."""
    store.renew()
    store.tell("reset")
    started = time.monotonic()
    process = subprocess.Popen(
        [*system.command, "--events", str(events), "--warm", str(warm), *map(str, extra)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=ENVIRONMENT | {"AWS_ENDPOINT_URL_DYNAMODB": store.endpoint} | (environment or {}),
    )
    try:
        expect(process, "ready", system)
        first_response_ms = (time.monotonic() - started) * 1000
        idle_mb = memory_mb(process.pid, "VmRSS")
        store.tell("take")
        cpu = cpu_seconds(process.pid)
        process.stdin.write("go\n")
        answer = json.loads(expect(process, "{", system))
        cpu = cpu_seconds(process.pid) - cpu
        if answer["failed"]:
            raise SystemExit(f"{system.label}: {answer['failed']} messages failed")
        return Run(
            messages=messages,
            seconds=answer["seconds"],
            cpu_seconds=cpu,
            requests=store.tell("take"),
            first_response_ms=first_response_ms,
            idle_mb=idle_mb,
            peak_mb=memory_mb(process.pid, "VmHWM"),
            rows=store.tell("rows"),
        )
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def expect(process: subprocess.Popen, start: str, system: System) -> str:
    """The next line that starts so; the lines before it are the system's own log."""
    for line in process.stdout:
        if line.startswith(start) and not line.startswith('{"timestamp"'):
            return line
    raise SystemExit(f"{system.label} ended before it said {start!r}")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, those that ended too: Linux's CPU clock of
    another process (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def memory_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"/proc has no {name}")
