"""Commands in processes of their own, as a user starts them."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import yaml

__all__ = ["Started", "fake_api", "server_of", "started", "until_bound"]

MAIN = "from kframework.cli import main; main()"


class Started:
    """A running command."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stderr is not None
        self.process = process
        self.out: IO[str] = process.stdout
        self.err: IO[str] = process.stderr

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, list[str], list[str]]:
        """Send a signal; return the code, and the lines not yet read of both streams."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out.splitlines(), err.splitlines()


@contextmanager
def started(*arguments: object) -> Iterator[Started]:
    """Start a command, and kill it in the end if it still runs."""
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Started(process)
        finally:
            process.kill()


@contextmanager
def fake_api(*arguments: object) -> Iterator[tuple[Started, Path]]:
    """Start a fake API; yield it with its kubeconfig."""
    with started("fake-api", *arguments) as api:
        yield api, exported(api)


def exported(command: Started) -> Path:
    """Read the line that a command prints for the shell."""
    word, assignment = shlex.split(command.out.readline())
    assert word == "export" and assignment.startswith("KUBECONFIG=")
    return Path(assignment.removeprefix("KUBECONFIG="))


def server_of(kubeconfig: Path) -> str:
    """Return the URL in a kubeconfig."""
    return str(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])


def until_bound(kubeconfig: Path, name: str, namespace: str = "default") -> str:
    """Watch a pod until it is bound; return its node."""
    url = f"{server_of(kubeconfig)}/api/v1/namespaces/{namespace}/pods?watch=true&fieldSelector=metadata.name={name}"
    with urlopen(url, timeout=30) as lines:
        for line in lines:
            node = json.loads(line)["object"]["spec"].get("nodeName")
            if node:
                return str(node)
    raise AssertionError("the watch has ended")
