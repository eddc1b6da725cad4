"""The notebooks of the examples show what comes of them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted(Path("examples/notebooks").glob("*.ipynb"))

#: How long a cell may take, in seconds.
_PATIENCE = 50


def read(file: Path) -> nbformat.NotebookNode:
    """Read a notebook."""
    notebook: nbformat.NotebookNode = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]  # has no types
    return notebook


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
@pytest.mark.filterwarnings("ignore:Kernel is running over TCP:RuntimeWarning")  # to this machine alone
def test_cells_of_a_notebook_run_as_shown(file: Path) -> None:
    written, executed = read(file), read(file)
    nbformat.validate(executed)
    resources = {"metadata": {"path": str(file.parent)}}
    NotebookClient(executed, timeout=_PATIENCE, resources=resources, record_timing=False).execute()
    for before, now in zip(written.cells, executed.cells, strict=True):
        assert now.get("outputs") == before.get("outputs"), before["source"]
