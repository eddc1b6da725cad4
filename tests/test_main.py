"""`python -m kframework` is the command line."""

from __future__ import annotations

import subprocess
import sys

from kframework._version import __version__


def test_package_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "kframework", "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"kframework {__version__}\n")
