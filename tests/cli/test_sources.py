"""The option --source names a plugin, its source and a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kframework.cli.sources import read_source_file


def test_option_is_read_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a=b.jsonl"
    file.write_text('{"at": 0, "values": {"n": 1}}')
    script = read_source_file(f"Load/load={file}").script
    assert (script.plugin, script.name) == ("Load", "load")


@pytest.mark.parametrize("option", ["load", "Load/load", "Load=file", "/load=file", "Load/load="])
def test_other_form_is_refused(option: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not PLUGIN/NAME=FILE"):
        read_source_file(option)
