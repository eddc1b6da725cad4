"""The examples do what the README shows; those that a command reads are in its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.long
def test_picture_of_the_sharing_example_is_current() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "sharing.py"], capture_output=True, text=True, check=True)
    assert done.stdout == (EXAMPLES.parent / "sharing.svg").read_text()
