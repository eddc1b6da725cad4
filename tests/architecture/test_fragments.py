"""A module is one idea: a short one that only one other module imports is a part of that one's idea."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, modules, parse
from tests.architecture.test_import_order import imports

#: A module of fewer lines stands in the one module that imports it.
SHORT = 60

#: Short modules with one importer, each with the reason.
REASONS: dict[str, str] = {
    "kframework.capacity.routes": "a scheduler imports it when it starts, and live_fit at the first request",
    "kframework.cli.live_shadows": "what a running scheduler answers, beside the comparisons that cli.compare makes",
    "kframework.plugins.dynamic_resources.args": "the plugin is close to 500 lines",
    "kframework_selector_spread.rows": "tests/contract asks that each line of the plugin's own file is come by",
    "kframework.objects.sigs_pod_groups": "it declares a kind once it is imported, which plugins decide",
    "kframework.plugins.dynamic_resources.placements": "a door for plugins that score nodes by devices",
}


@pytest.fixture(name="problems", scope="module")
def of_the_product() -> dict[str, str]:
    return fragments(sources())


def test_no_short_module_has_one_importer(problems: dict[str, str]) -> None:
    assert problems.keys() <= REASONS.keys(), listed(
        [f"{name}: only {importer} imports it" for name, importer in problems.items() if name not in REASONS]
    )


def test_exceptions_are_not_stale(problems: dict[str, str]) -> None:
    assert REASONS.keys() <= problems.keys()


def sources() -> dict[str, str]:
    """Map the modules of the product, the distributions beside kframework included, to their text."""
    found = {name: path.read_text() for name, path in modules().items()}
    for folder in sorted(ROOT.glob("contrib_plugins/*/src")):
        found |= {name_below(folder, path): path.read_text() for path in sorted(folder.glob("**/*.py"))}
    return found


def name_below(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def fragments(texts: Mapping[str, str]) -> dict[str, str]:
    """Map the short modules that one other module imports to that one; packages aside."""
    importers: dict[str, set[str]] = defaultdict(set)
    packages = {name.rpartition(".")[0] for name in texts}
    for name, text in texts.items():
        for _, target in imports(f"{name}.__init__" if name in packages else name, parse(text)):
            home = target if target in texts else target.rpartition(".")[0]
            if home in texts and home != name:
                importers[home].add(name)
    return {
        name: next(iter(importers[name]))
        for name, text in texts.items()
        if name not in packages and len(importers[name]) == 1 and len(text.splitlines()) < SHORT
    }


def test_fragment_is_reported() -> None:
    texts = {
        "room.whole": "from room.part import A\nfrom room import shared, long",
        "room.other": "from room.shared import B",
        "room.part": "class A: ...",
        "room.shared": "class B: ...",
        "room.long": "\n" * SHORT,
    }
    assert fragments(texts) == {"room.part": "room.whole"}
