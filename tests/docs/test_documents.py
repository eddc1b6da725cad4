"""Every example in the documents is tried, in order, as a reader would: files are written, commands typed."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import Block, agrees, blocks, commands
from tests.docs.examples import DOCUMENTS
from tests.docs.warm import warm, warm_up
from tests.examples.clean_environment import ROOT, CleanEnvironment

pytestmark = pytest.mark.slow

CONFIGURATIONS = ("KubeSchedulerConfiguration", "KFrameworkConfiguration")


@pytest.fixture(scope="session")
def address(installed: CleanEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a process answers that has kframework imported."""
    with warm(installed, tmp_path_factory.mktemp("warm")) as address:
        yield address


@pytest.mark.tool("make")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_of_a_document_run_as_shown(
    document: Path, environment: CleanEnvironment, address: Path, tmp_path: Path
) -> None:
    warm_up(environment, address)
    reader = Reader(environment, tmp_path)
    problems = [
        f"{document.relative_to(ROOT)}, block in line {block.line}: {problem}"
        for block in blocks(document.read_text())
        if (problem := reader.tries(block))
    ]
    assert not problems, "\n".join(problems)


class Reader:
    """A reader who tries the examples of a document in an empty folder beside the project's own files."""

    def __init__(self, environment: CleanEnvironment, folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        for name in ("Makefile", "contrib_plugins", "examples", "pyproject.toml"):
            (folder / name).symlink_to(ROOT / name)
        # What `make demo` would install is installed already.
        Path(environment.folder, ".demo-installed").touch()

    def tries(self, block: Block) -> str:
        """Do what a block says; return what is wrong with it, or nothing."""
        if block.file is not None:
            self.writes(block.file, block.text)
        match block.language:
            case "console":
                return self.types(block)
            case "python" if block.file is None:
                return self.gets("", "python", "-c", block.text)
            case "python":
                return self.gets("", "python", "-m", "py_compile", block.file or "")
            case "yaml":
                return self.checks_yaml(block.text)
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
        return ""

    def writes(self, name: str, text: str) -> None:
        """Write a file into the folder, in place of a link if there is one."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        assert path.parent.resolve().is_relative_to(self.folder.resolve()), f"{name} is not the reader's to write"
        path.write_text(text)

    def types(self, block: Block) -> str:
        """Type the commands of a console block, and compare what they print."""
        for command in commands(block):
            printed = self.runs("bash", "-c", command.text).stdout
            if not agrees(command.output, tuple(printed.splitlines())):
                return f"{command.text!r} printed:\n{printed}"
        return ""

    def gets(self, expected: str, *command: str) -> str:
        """Run a command; return its output unless it succeeds with the one expected."""
        result = self.runs(*command)
        return "" if result.returncode == 0 and result.stdout == expected else result.stdout or "failed silently"

    def checks_yaml(self, text: str) -> str:
        """Parse YAML, and check it if it is a configuration."""
        if not any(isinstance(part, dict) and part.get("kind") in CONFIGURATIONS for part in yaml.safe_load_all(text)):
            return ""
        self.writes("checked.yaml", text)
        result = self.runs("kframework", "config", "check", "checked.yaml")
        return "" if result.returncode == 0 else result.stdout

    def runs(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder; a module that was written there is the one that runs."""
        return self.environment.run("env", f"PYTHONPATH={self.folder}", *command, cwd=self.folder)
