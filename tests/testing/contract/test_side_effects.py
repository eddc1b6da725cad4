"""A hook that waits is found, however it comes to it."""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
import time
from pathlib import Path
from time import sleep

import pytest

from kframework import Plugin, hookimpl
from kframework.testing import ContractViolation, check_plugin
from kframework.testing.contract.probe import PluginUnderTest
from kframework.testing.contract.promises import PROMISES

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


class Waits(Plugin):
    name = "Waits"

    def wait(self):
        pass

    @hookimpl
    def filter(self, state, pod, node):
        try:
            self.wait()
        except Exception:
            return None
        return None


class Sleeps(Waits):
    def wait(self):
        time.sleep(0)


class SleepsByName(Waits):
    def wait(self):
        sleep(0)


class Reads(Waits):
    def wait(self):
        open("/dev/null").close()


class ReadsPath(Waits):
    def wait(self):
        Path("/dev/null").read_text()


class Connects(Waits):
    def wait(self):
        socket.create_connection(("127.0.0.1", 1))


class Runs(Waits):
    def wait(self):
        subprocess.run(["true"])


class SleepsInPermit(Waits):
    @hookimpl
    def permit(self, state, pod, node_name):
        time.sleep(0)


@pytest.mark.parametrize(
    ("plugin", "hook", "call"),
    [
        (Sleeps, "filter", "time.sleep"),
        (SleepsByName, "filter", "time.sleep"),
        (Reads, "filter", "open"),
        (ReadsPath, "filter", "open"),
        (Connects, "filter", "socket.getaddrinfo"),
        (Runs, "filter", "subprocess.Popen"),
        (SleepsInPermit, "permit", "time.sleep"),
    ],
)
def test_waiting_hook_is_reported(plugin: type[Plugin], hook: str, call: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_plugin(plugin, examples=1)
    assert caught.value.call.startswith(f"{hook} of pod ")
    assert caught.value.result == f"calls {call}, which blocks the scheduler"
    assert "wait in a source" in caught.value.remedy


class Imports(Waits):
    def wait(self):
        importlib.import_module("imported_late")


def test_import_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_late.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    pytest.register_assert_rewrite("imported_late")  # pytest opens the files of such modules
    check_plugin(Imports, examples=1)
    assert sys.modules.pop("imported_late")


def test_check_restores_blocking_functions() -> None:
    before = time.sleep
    PROMISES["test_hooks_have_no_side_effects"].check(PluginUnderTest(plugin=Waits, examples=2))
    assert time.sleep is before
    assert sleep is before
