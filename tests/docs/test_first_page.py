"""What the first page of the site has a newcomer type, in one go: to a plugin that schedules for an API server."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.blocks import Block, commands
from tests.examples.clean_environment import ROOT, CleanEnvironment

pytestmark = pytest.mark.slow

#: Done for the reader already, as it takes the network.
COMPLETED = ("python3 -m venv ", "pip install . pytest")
KUBECONFIG = "/tmp/mine.kubeconfig"


def expected() -> list[list[str]]:
    """List the commands of the blocks that the other tests of documents pass over."""
    page = (ROOT / "docs" / "README.md").read_text()
    passed_over = re.findall(r"^<!-- not run: [^\n]* -->\n```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [[command.text for command in commands(Block(0, "console", text))] for text in passed_over]


def test_first_page_takes_ten_commands() -> None:
    assert 0 < sum(map(len, expected())) <= 10


@pytest.mark.timeout(180)
def test_new_plugin_is_tested_and_schedules_for_an_api_server(environment: CleanEnvironment, tmp_path: Path) -> None:
    written, served = expected()
    script = "\n".join(["set -e", *(command for command in written if not command.startswith(COMPLETED))])
    tried = environment.run("bash", "-c", script, cwd=tmp_path)
    assert tried.returncode == 0, tried.stdout
    assert re.search(r" \d+ passed", tried.stdout)
    assert "4 of 5 pods bound, 1 pending" in tried.stdout

    folder, kubeconfig = tmp_path / "my-plugin", tmp_path / "kubeconfig"
    api, run = (command.removesuffix(" &").replace(KUBECONFIG, str(kubeconfig)) for command in served)
    with started(environment, api, folder) as api_says:
        assert next(api_says) == f"export KUBECONFIG={kubeconfig}\n"
        with started(environment, f"{run} --secure-port 0 -v 2", folder) as scheduler_says:
            bound = (line for line in scheduler_says if "Successfully bound pod to node" in line)
            assert {re.findall(r'pod="default/(.*?)"', next(bound))[0] for _ in range(4)} <= {
                f"web-{number}" for number in range(1, 6)
            }


@contextmanager
def started(environment: CleanEnvironment, command: str, folder: Path) -> Iterator[Iterator[str]]:
    """Start a command of the environment, yield the lines that it prints, and end it."""
    with subprocess.Popen(
        command.split(),
        cwd=folder,
        env=environment.variables(),
        executable=environment.bin / command.split()[0],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
