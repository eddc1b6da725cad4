"""An environment in which kframework and the distributions beside it are installed from wheels, as a user has them.

Only their dependencies are borrowed from the environment that runs the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

__all__ = ["ROOT", "CleanEnvironment", "installed_environment"]

ROOT = Path(__file__).parents[2]

# Resolves nothing and builds with the backend that is here already: a tutorial's `pip install` then needs no network.
_PIP = """\
#!/bin/sh
command=$1
shift
exec "{python}" -m pip --python "{target}" "$command" --no-deps --no-index --no-build-isolation "$@"
"""


#: Variables that would let the tests' own surroundings shine through; make sets its own for every command it runs.
_OTHERS = ("PYTHON", "KFRAMEWORK", "MAKE", "MFLAGS")


#: Where the program of uv_build is, which it looks for on the PATH.
_BUILDERS = Path(sys.executable).parent

#: Of the plugins of pytest that are found, this is what comes with kframework; others are the tests' surroundings.
PLUGIN = "kframework.testing.pytest_plugin"


class CleanEnvironment:
    """A virtual environment in a folder; `pip` in it installs offline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment; its errors come with its output, as on a terminal."""
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def layered(self, folder: Path) -> CleanEnvironment:
        """Make an environment on top of this one: it sees all that is installed here, and may install over it."""
        layer = CleanEnvironment(folder)
        target = layer.bin / "python"
        _run("-m", "venv", "--without-pip", str(folder))
        _lend(target, _packages(self.bin / "python"), sysconfig.get_path("purelib"))
        _write_pip(layer.bin / "pip", target)
        for script in self.bin.iterdir():
            if not (layer.bin / script.name).exists():
                (layer.bin / script.name).write_text(script.read_text().replace(str(self.folder), str(folder)))
                (layer.bin / script.name).chmod(0o755)
        return layer

    def variables(self) -> dict[str, str]:
        """Return the variables of a shell in which the environment is active."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
        path = os.pathsep.join([str(self.bin), inherited.get("PATH", os.defpath), str(_BUILDERS)])
        return inherited | {
            "PATH": path,
            "VIRTUAL_ENV": str(self.folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": PLUGIN,
        }


def installed_environment(factory: pytest.TempPathFactory) -> CleanEnvironment:
    """Return an environment with all distributions, made once for all processes of this run of the tests."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    environment = CleanEnvironment(base / "installed")
    with (base / "turn").open("w") as turn:
        flock(turn, LOCK_EX)
        if not environment.folder.exists():
            _make(environment, _build_wheels(base / "wheels"))
    return environment


def _build_wheels(folder: Path) -> list[Path]:
    """Build all distributions into a folder, each as pip has it built."""
    folder.mkdir()
    beside = (file.parent for each in ("examples", "contrib_plugins") for file in ROOT.glob(f"{each}/*/pyproject.toml"))
    for source in (ROOT, *beside):
        subprocess.run([_BUILDERS / "uv-build", "build-wheel", folder], cwd=source, check=True, capture_output=True)
    return sorted(folder.glob("*.whl"))


def _make(environment: CleanEnvironment, wheels: list[Path]) -> None:
    """Make an environment and install the wheels in it."""
    target = environment.bin / "python"
    _run("-m", "venv", "--without-pip", str(environment.folder))
    _run("-m", "pip", "--python", str(target), "install", *_QUIET, *map(str, wheels))
    _lend(target, sysconfig.get_path("purelib"))
    _write_pip(environment.bin / "pip", target)


_QUIET = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True)


def _lend(target: Path, *packages: str) -> None:
    """Put packages of other environments behind the target's own; what is installed there as editable is not lent."""
    Path(_packages(target), "lent.pth").write_text("\n".join(packages) + "\n")


def _packages(python: Path) -> str:
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()


def _write_pip(script: Path, target: Path) -> None:
    script.write_text(_PIP.format(python=sys.executable, target=target))
    script.chmod(0o755)
