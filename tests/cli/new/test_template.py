"""Templates: what of them is kept, and that they say nothing that is never true."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from kframework.cli.new.points import OPTIONS, POINTS, forms
from kframework.cli.new.template import filled, kept, pruned

TEMPLATES = sorted(
    each.name.removesuffix(".template") for each in files("kframework.cli.new").joinpath("templates").iterdir()
)

NESTED = """\
always
#if filter score
  one
#if columnar
  columnar
#else
  scalar
#end
#else
  none
#end
at last
"""


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (set(), "always|  none|at last"),
        ({"columnar"}, "always|  none|at last"),
        ({"filter"}, "always|  one|  scalar|at last"),
        ({"score", "columnar"}, "always|  one|  columnar|at last"),
    ],
)
def test_lines_are_kept_that_hold(words: set[str], lines: str) -> None:
    assert "".join(kept(NESTED, words)) == lines.replace("|", "\n") + "\n"


def test_names_are_filled_in() -> None:
    assert filled("init.py", frozenset(), {"module": "m", "plugin": "P", "summary": "s"}).startswith('"""P: s."""')


IMPORTS = """\
from __future__ import annotations

import asyncio

import numpy as np
from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    PendingPod,
    PluginArgs,
    Status,
    hookimpl,
    unschedulable,
)

from mine import Mine
"""


@pytest.mark.parametrize(
    ("used", "imports"),
    [
        ("", ""),
        ("# Status", ""),
        ("x = (Status, np)", "import numpy as np\nfrom kframework import Status\n"),
        ("async def x(mine: Mine) -> Status: ...", "from kframework import Status\n\nfrom mine import Mine\n"),
        ("x = Mine(asyncio)", "import asyncio\n\nfrom mine import Mine\n"),
    ],
)
def test_what_is_not_used_is_not_imported(used: str, imports: str) -> None:
    future = "from __future__ import annotations\n"
    expected = f"{future}\n{imports}" if imports else future
    assert pruned(f"{IMPORTS}\n\n{used}\n") == f"{expected}\n\n{used}\n"


def test_imports_stay_many_lines_where_one_would_be_long() -> None:
    used = "ActionType ClusterEvent CycleState EventResource PendingPod PluginArgs Status hookimpl unschedulable"
    text = f"{IMPORTS.replace('import asyncio', 'import asyncio as anything')}x = ({', '.join(used.split())})\n"
    lines = pruned(text).splitlines()
    assert lines[2:-2] == ["from kframework import (", *(f"    {name}," for name in used.split()), ")"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_conditions_name_what_can_be_true(name: str) -> None:
    text = files("kframework.cli.new").joinpath("templates", f"{name}.template").read_text()
    conditions = re.findall(r"^#if (.+)$", text, re.MULTILINE)
    words = {word for condition in conditions for word in condition.split()}
    assert words <= {*POINTS, *forms(POINTS, OPTIONS.keys()), "numpy", "pydantic"}
    assert len(conditions) == text.count("#end\n")
