"""Every plugin keeps every promise of the contract, in all its worlds."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.testing import PluginContract
from tests.contract.cases import CASES
from tests.contract.plugins import holding, placing

#: So many clusters for each plugin, world and promise; the neighbours of this module ask about more.
EXAMPLES = 2


def classes() -> Iterator[type[PluginContract]]:
    """Make the tests of each plugin in each of its worlds."""
    for name, plugin in {**placing(), **holding()}.items():
        for number, world in enumerate([*CASES[name].worlds, *CASES[name].waking]):
            given = {**msgspec.structs.asdict(world), "plugin": plugin, "examples": EXAMPLES, "__module__": __name__}
            yield type(f"Test{name}{number or ''}", (PluginContract,), given)


globals().update({each.__name__: each for each in classes()})
