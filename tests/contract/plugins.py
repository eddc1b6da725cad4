"""The plugins whose contract is checked: all that are installed, and all that the examples offer."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

from kframework import Plugin
from kframework.registry import GROUP, Registry, hooks_of

__all__ = ["PLACEMENT", "plugins"]

EXAMPLES = Path(__file__).parents[2] / "examples"

#: The hooks that `check_plugin` asks.
PLACEMENT = (
    "sign",
    "pre_filter",
    "filter",
    "filter_nodes",
    "filter_status",
    "pre_score",
    "score",
    "score_nodes",
    "normalize_score",
)


def plugins() -> Mapping[str, type[Plugin]]:
    """Return the plugins that take part in placing a pod, by name."""
    installed = Registry.installed()
    offered = {name: installed.load(name) for name in installed} | dict(_examples())
    return {name: plugin for name, plugin in sorted(offered.items()) if hooks_of(plugin).keys() & set(PLACEMENT)}


def _examples() -> Iterator[tuple[str, type[Plugin]]]:
    for project in sorted(EXAMPLES.glob("*/pyproject.toml")):
        if str(project.parent) not in sys.path:
            sys.path.append(str(project.parent))
        offers = tomllib.loads(project.read_text())["project"].get("entry-points", {}).get(GROUP, {})
        for name, target in offers.items():
            yield name, EntryPoint(name, target, GROUP).load()
