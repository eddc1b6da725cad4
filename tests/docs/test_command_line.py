"""The page of the command line has every option that `--help` lists."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Command, run
from tests.examples.clean_environment import ROOT

__all__ = ["run"]

PAGE = ROOT.joinpath("docs/reference/command-line.md").read_text()
SECTIONS = dict(re.findall(r"^## kframework ([a-z-]+)\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))

#: Rows about a family of options name what these begin with.
FAMILY = re.compile(r"`(--[a-z-]+-)…`")


@pytest.mark.parametrize("command", sorted(SECTIONS.keys() - {"config", "import", "plugins", "schema"}))
def test_section_of_a_command_has_its_options(run: Command, command: str) -> None:
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", run(command, "--help").out, re.MULTILINE)) - {"--help"}
    section = SECTIONS[command]
    families = tuple(FAMILY.findall(section))
    missing = {each for each in options if not re.search(rf"`{each}\b|, `{each}", section)}
    short = {"--filename"} if "`-f`" in section else set()
    assert options
    assert missing - short == {each for each in missing if families and each.startswith(families)}
