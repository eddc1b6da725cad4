"""kframework's commands as real processes, and kubectl to drive them with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

#: How long anything may take that takes a second on an idle machine, in seconds.
DEADLINE = 40.0


def until(question: Callable[[], T]) -> T:
    """Ask until the answer is true; whatever is asked takes its time, so there is no pause."""
    end = time.monotonic() + DEADLINE
    while not (answer := question()):
        assert time.monotonic() < end, f"the last answer was {answer!r}"
    return answer


class Running:
    """A program that runs until it is stopped; both of its outputs are read as one."""

    def __init__(self, name: str, *command: str, environment: Mapping[str, str]) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._lines: list[str] = []
        self._grown = threading.Condition()

    def __enter__(self) -> Running:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environment
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self._reader.join()
        self.process.wait()
        if kind is not None:
            sys.stdout.write(f"{self}:\n{''.join(self._lines)}")

    def says(self, words: str) -> str:
        """Wait for a line with these words in it, and return it."""
        with self._grown:
            self._grown.wait_for(lambda: self._line(words) or self._ended(), DEADLINE)
            line = self._line(words)
        assert line, f"{self} did not say {words!r}, but {self._lines}"
        return line

    def said(self, words: str) -> bool:
        """Return whether there was a line with these words in it."""
        with self._grown:
            return bool(self._line(words))

    def stop(self) -> int:
        """Ask it to end, as an operator would, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._grown:
                    self._lines.append(line)
                    self._grown.notify_all()
        with self._grown:
            self._lines.append("")  # the end
            self._grown.notify_all()

    def _line(self, words: str) -> str:
        return next((line for line in self._lines if words in line), "")

    def _ended(self) -> bool:
        return bool(self._lines) and not self._lines[-1]

    def __repr__(self) -> str:
        return self._name


def kframework(*arguments: str) -> Running:
    """Run a command of kframework, as after its installation."""
    code = "from kframework.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    name = f"kframework {' '.join(arguments)}"
    return Running(name, sys.executable, "-c", code, *arguments, environment=environment)


class Kubectl:
    """kubectl, with the kubeconfig of a fake cluster and a home of its own for what it caches."""

    def __init__(self, kubeconfig: Path) -> None:
        home = kubeconfig.parent
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run it and return what it prints; it must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *arguments: str) -> Running:
        """Run it until it is stopped."""
        return Running(f"kubectl {' '.join(arguments)}", "kubectl", *arguments, environment=self._environment)

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        command = ["kubectl", *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=self._environment, timeout=DEADLINE, check=False
        )
