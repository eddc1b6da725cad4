"""Every built-in plugin keeps every promise of the contract, in all its worlds; other distributions test their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from kframework.testing import PluginContract
from tests.contract.cases import CASES
from tests.contract.plugins import ROOT, holding, placing

OFFERED = {**placing(), **holding()}
BUILT_IN = {name: plugin for name, plugin in OFFERED.items() if plugin.__module__.startswith("kframework.")}

#: So many clusters for each plugin, world and promise; the neighbours of this module ask about more.
EXAMPLES = 2


def classes() -> Iterator[type[PluginContract]]:
    """Make the tests of each plugin in each of its worlds."""
    for name, plugin in BUILT_IN.items():
        for number, world in enumerate([*CASES[name].worlds, *CASES[name].waking]):
            given = {**msgspec.structs.asdict(world), "plugin": plugin, "examples": EXAMPLES, "__module__": __name__}
            yield type(f"Test{name}{number or ''}", (PluginContract,), given)


globals().update({each.__name__: each for each in classes()})


def test_plugins_of_other_distributions_have_contract_tests_there() -> None:
    files = (file for place in ("contrib_plugins", "examples") for file in ROOT.glob(f"{place}/*/tests/**/*.py"))
    tested = {found for file in files for found in re.findall(r"^    plugin = (\w+)$", file.read_text(), re.M)}
    assert {plugin.__name__ for name, plugin in OFFERED.items() if name not in BUILT_IN} <= tested
