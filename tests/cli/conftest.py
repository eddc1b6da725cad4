"""What the tests of the command line have: a way to run it, and distributions to plant."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from inspect import unwrap
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from kframework.cli import main
from kframework.core.runtime import registry
from tests.support.answers import check_answer


class Run(NamedTuple):
    """What a command came to."""

    code: object
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines on stderr, without the notice that some in-tree plugins are not built."""
        return [line for line in self.err.splitlines() if not line.startswith("notice: not implemented")]


Command = Callable[..., Run]

#: Commands whose JSON is no answer: Kubernetes objects, and measurements.
_OTHER_JSON = ("rbac", "bench")
Install = Callable[..., None]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own colour settings out of what the tests compare."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line in this process."""

    def run(*arguments: object, stdin: str = "") -> Run:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        done = Run(exit.value.code, *capsys.readouterr())
        if ("-o", "json") in pairwise(arguments) and arguments[0] not in _OTHER_JSON and done.out:
            check_answer(done.out)
        return done

    return run


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution of one module that offers plugins or commands, as pip would leave it on the path."""

    def install(
        name: str, offers: Mapping[str, str], source: str, version: str = "1.0", group: str = registry.GROUP
    ) -> None:
        folder = tmp_path / "site" / name
        metadata = folder / f"{name}-{version}.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"{name}.py").write_text(source)
        told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: The words of {name}\n"
        (metadata / "METADATA").write_text(told)
        entries = "\n".join(f"{offer} = {name}:{target}" for offer, target in offers.items())
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setattr(registry, "installed_offers", unwrap(registry.installed_offers))  # what is cached misses it
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write the `CLUSTER` of the test's module to a file."""
    file = tmp_path / "cluster.yaml"
    file.write_text(request.module.CLUSTER)
    return file
