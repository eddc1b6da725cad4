"""What plugins are made of: their Args and their name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kframework import Plugin, PluginArgs


class RackArgs(PluginArgs):
    """Args as an author writes them."""

    racks_per_row: int = 4


def test_args_are_camel_case_in_the_file_and_closed() -> None:
    assert RackArgs.model_validate({"racksPerRow": 7}).racks_per_row == 7
    assert RackArgs(racks_per_row=7) == RackArgs.model_validate({"racksPerRow": 7})
    with pytest.raises(ValidationError, match="racksPerColumn"):
        RackArgs.model_validate({"racksPerColumn": 7})


def test_args_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RackArgs().racks_per_row = 1  # type: ignore[misc]  # frozen


def test_a_plugin_shows_its_name() -> None:
    class Named(Plugin):
        name = "Rack"

    class Nameless(Plugin):
        """Forgot its name."""

    assert repr(Named.__new__(Named)) == "<Rack>"
    assert repr(Nameless.__new__(Nameless)) == "<Nameless>"
