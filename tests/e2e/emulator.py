"""The emulator that needs no Docker: ministack, as a process of this run alone."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

SECONDS_TO_START = 60


class Ministack:
    """A context manager: the endpoint is up within it, and nothing is left of it after."""

    def __init__(self, binary: Path, directory: Path):
        self.binary = binary
        self.log = directory / "ministack.log"
        self.process = None
        self.endpoint = None

    def __enter__(self):
        port = unused_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        environment = os.environ | {
            # It binds to all interfaces otherwise.
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            # What it tells the functions to call.
            "AWS_ENDPOINT_URL": self.endpoint,
            # Roles are enforced: the function can do no more than the template allows it.
            "AUTH": "true",
            # Lambda sets these by the function's LoggingConfig. The emulator does not, but hands
            # its own environment on.
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "AWS_LAMBDA_LOG_LEVEL": "INFO",
        }
        # A proxy of this machine is not meant for a function that calls 127.0.0.1.
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            environment.pop(name, None)
            environment.pop(name.lower(), None)
        self.process = subprocess.Popen(
            [self.binary],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            # A group of its own, with the functions that it starts, so that all of it can be ended.
            start_new_session=True,
        )
        try:
            self.wait_until_healthy()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_until_healthy(self):
        give_up = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"ministack did not start; its log: {self.log}")

    def stop(self):
        if self.process is None:
            return
        for ending in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, ending)
                self.process.wait(timeout=10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self.process = None


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
