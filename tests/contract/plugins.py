"""The plugins that are checked: all that are installed, and all that the distributions of this repository offer."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from kframework import Plugin
from kframework.core.runtime.hooks import extension_points, marked_hooks
from kframework.core.runtime.registry import GROUP, Registry

__all__ = ["ASKED", "holding", "placing"]

ROOT = Path(__file__).parents[2]

#: The hooks whose answers are remembered, scaled and compared.
ASKED = frozenset(
    {
        "sign",
        "pre_filter",
        "filter",
        "filter_nodes",
        "filter_status",
        "pre_score",
        "score",
        "score_nodes",
        "normalize_score",
    }
)
#: The points at which a pod can be sent back to wait.
HOLDING = frozenset({"pre_enqueue", "pre_filter", "filter", "reserve", "permit"})


def placing() -> Mapping[str, type[Plugin]]:
    """Return the plugins that take part in placing a pod, by name."""
    return {name: plugin for name, plugin in _offered().items() if marked_hooks(plugin).keys() & ASKED}


def holding() -> Mapping[str, type[Plugin]]:
    """Return the plugins that hold pods back, by name."""
    return {name: plugin for name, plugin in _offered().items() if extension_points(plugin) & HOLDING}


@cache
def _offered() -> Mapping[str, type[Plugin]]:
    installed = Registry.from_installed()
    offered = {name: installed.load(name) for name in installed} | dict(_in_repository())
    return dict(sorted(offered.items()))


def _in_repository() -> Iterator[tuple[str, type[Plugin]]]:
    """List what the distributions offer, whether they are installed or not."""
    for project in sorted([*ROOT.glob("examples/*/pyproject.toml"), *ROOT.glob("contrib_plugins/*/pyproject.toml")]):
        sources = project.parent / "src"
        folder = str(sources if sources.is_dir() else project.parent)
        if folder not in sys.path:
            sys.path.append(folder)
        offers = tomllib.loads(project.read_text())["project"].get("entry-points", {}).get(GROUP, {})
        for name, target in offers.items():
            yield name, EntryPoint(name, target, GROUP).load()
