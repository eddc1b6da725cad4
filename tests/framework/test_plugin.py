"""What plugins are made of: their Args and their name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kframework import Plugin, PluginArgs
from kframework.framework.plugin import A


class RackArgs(PluginArgs):
    """Args as an author writes them."""

    racks_per_row: int = 4


def test_args_are_camel_case_and_reject_unknown_fields() -> None:
    assert RackArgs.model_validate({"racksPerRow": 7}).racks_per_row == 7
    assert RackArgs(racks_per_row=7) == RackArgs.model_validate({"racksPerRow": 7})
    with pytest.raises(ValidationError, match="racksPerColumn"):
        RackArgs.model_validate({"racksPerColumn": 7})


def test_args_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RackArgs().racks_per_row = 1  # type: ignore[misc]  # frozen


class Rack(Plugin[RackArgs]):
    """Takes arguments."""


class Old(Plugin):
    """Takes arguments as plugins did before."""

    Args = RackArgs


class Shared(Plugin[A]):
    """What several plugins have in common, whatever arguments they take."""


class OfShared(Shared[RackArgs]):
    """Takes the arguments that it names to what it shares."""


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        (Rack, RackArgs),
        (Old, RackArgs),
        (type("Heir", (Rack,), {}), RackArgs),
        (type("Changed", (Rack,), {"Args": PluginArgs}), PluginArgs),
        (Shared, PluginArgs),
        (OfShared, RackArgs),
    ],
)
def test_args_model_is_that_of_the_generic_base(plugin: type[Plugin], args: type[PluginArgs]) -> None:
    assert plugin.Args is args


def test_repr_is_the_plugin_name() -> None:
    class Named(Plugin):
        name = "Rack"

    class Nameless(Plugin):
        """Forgot its name."""

    assert repr(Named.__new__(Named)) == "<Rack>"
    assert repr(Nameless.__new__(Nameless)) == "<Nameless>"
