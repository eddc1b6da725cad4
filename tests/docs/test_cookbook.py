"""The cookbook names every example that is a package, once."""

from __future__ import annotations

import re

from tests.examples.clean_environment import ROOT


def test_every_example_is_a_recipe_of_the_cookbook() -> None:
    cookbook = (ROOT / "docs/how-to/cookbook.md").read_text()
    packages = sorted(written.parent.name for written in ROOT.glob("examples/*/pyproject.toml"))
    assert sorted(re.findall(r"\]\(../../examples/(\w+)\)", cookbook)) == packages
