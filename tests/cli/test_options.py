"""Groups of commands."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kframework.cli.options import (
    Output,
    group,
    parse_duration,
    parse_positive_duration,
    read_source_file,
    refuse_overwriting,
    refuse_reading_stdin_twice,
)


def test_group_shows_its_help_when_called_alone(capsys: pytest.CaptureFixture[str]) -> None:
    app = group("Look at things.")
    ran = []

    @app.command()
    def one() -> None:
        ran.append("one")

    @app.command()
    def two() -> None:
        ran.append("two")

    app([], standalone_mode=False)
    assert "Look at things." in capsys.readouterr().out
    app(["two"], standalone_mode=False)
    assert (capsys.readouterr().out, ran) == ("", ["two"])


def test_forms_of_output_are_kubectls() -> None:
    assert [*Output] == ["wide", "json", "yaml", "name"]


def test_span_of_time_is_written_as_in_go() -> None:
    assert parse_duration("1m30s") == 90.0
    with pytest.raises(typer.BadParameter, match=r'missing unit in duration "90"; write it as 90s or 1h30m'):
        parse_duration("90")


@pytest.mark.parametrize("text", ["0s", "-5s"])
def test_span_of_time_may_have_to_be_positive(text: str) -> None:
    assert parse_positive_duration("5s") == 5.0
    with pytest.raises(typer.BadParameter, match="must be greater than zero"):
        parse_positive_duration(text)


@pytest.mark.parametrize(
    ("written", "refused"),
    [
        ({"report": None, "trace": "a", "record": "b"}, None),
        ({"report": "in.yaml"}, "in.yaml is an input; name another file"),
        ({"report": "./in.yaml"}, "./in.yaml is an input; name another file"),
        ({"report": "a", "trace": "x/../a"}, "x/../a is written by --report; name another file"),
    ],
)
def test_input_file_is_not_overwritten(written: dict[str, str | None], refused: str | None) -> None:
    if refused is None:
        refuse_overwriting(["in.yaml", "-"], **written)
        return
    with pytest.raises(typer.BadParameter) as raised:
        refuse_overwriting(["in.yaml", "-"], **written)
    assert raised.value.message == refused


def test_stdin_is_read_once() -> None:
    refuse_reading_stdin_twice(["-"], "file")
    refuse_reading_stdin_twice(["file"], "-")
    with pytest.raises(typer.BadParameter, match="stdin is already read"):
        refuse_reading_stdin_twice(["file", "-"], "-")


def test_source_is_read_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a=b.jsonl"
    file.write_text('{"at": 0, "values": {"n": 1}}')
    script = read_source_file(f"Load/load={file}").script
    assert (script.plugin, script.name) == ("Load", "load")


@pytest.mark.parametrize("option", ["load", "Load/load", "Load=file", "/load=file", "Load/load="])
def test_other_form_of_a_source_is_refused(option: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not PLUGIN/NAME=FILE"):
        read_source_file(option)
