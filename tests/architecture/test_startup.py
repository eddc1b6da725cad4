"""What is heavy is imported by what needs it, not at start-up."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"kubernetes_asyncio", "numpy", "opentelemetry.sdk", "prometheus_client"}

HELP = """
import sys
sys.argv = ["kframework", "--help"]
from kframework.cli import main
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
"""


def test_the_package_imports_nothing_heavy() -> None:
    assert imported_by("import kframework") & (HEAVY | {"opentelemetry", "pydantic"}) == set()


def test_help_imports_nothing_heavy() -> None:
    assert imported_by(HELP) & HEAVY == set()


def test_a_heavy_import_is_found() -> None:
    assert imported_by("import numpy.linalg") & HEAVY == {"numpy"}


def imported_by(code: str) -> set[str]:
    """Name the modules that a fresh interpreter has imported after running the code."""
    report = code + "\nimport sys; print('imported:', *sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stderr.splitlines()[-1].removeprefix("imported: ").split())
