"""An environment in which kframework and the distributions beside it are installed from wheels, as a user has them.

Only their dependencies are borrowed from the environment that runs the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

__all__ = ["ROOT", "CleanEnvironment", "build_wheels", "make_environment"]

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
        builders = str(Path(sys.executable).parent)
        path = os.pathsep.join([str(self.bin), inherited.get("PATH", os.defpath), builders])
        return inherited | {
            "PATH": path,
            "VIRTUAL_ENV": str(self.folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": PLUGIN,
        }


def build_wheels(folder: Path) -> list[Path]:
    """Build all distributions into a folder, unless that was done before."""
    if not folder.exists():
        examples = sorted(file.parent for file in ROOT.glob("examples/*/pyproject.toml"))
        sources = (ROOT, *examples, *sorted(ROOT.glob("contrib_plugins/*")))
        _run("-m", "pip", "wheel", *_QUIET, "--wheel-dir", str(folder), *map(str, sources))
    return sorted(folder.glob("*.whl"))


def make_environment(folder: Path, wheels: Iterable[Path]) -> CleanEnvironment:
    """Make an environment and install the wheels in it."""
    environment = CleanEnvironment(folder)
    target = environment.bin / "python"
    _run("-m", "venv", "--without-pip", str(folder))
    _run("-m", "pip", "--python", str(target), "install", *_QUIET, *map(str, wheels))
    _lend(target, sysconfig.get_path("purelib"))
    _write_pip(environment.bin / "pip", target)
    return environment


_QUIET = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")


def _run(*arguments: str) -> None:
    # uv_build looks for its program on the PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    subprocess.run([sys.executable, *arguments], check=True, env=os.environ | {"PATH": path})


def _lend(target: Path, *packages: str) -> None:
    """Put packages of other environments behind the target's own; what is installed there as editable is not lent."""
    Path(_packages(target), "lent.pth").write_text("\n".join(packages) + "\n")


def _packages(python: Path) -> str:
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()


def _write_pip(script: Path, target: Path) -> None:
    script.write_text(_PIP.format(python=sys.executable, target=target))
    script.chmod(0o755)
