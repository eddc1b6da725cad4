"""`kframework new`: what is written where, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_package_is_written_and_listed(run: Command, working_directory: Path) -> None:
    result = run("new", "few-pods")
    assert (result.code, result.errors) == (0, [])
    written = [str(file.relative_to(working_directory)) for file in working_directory.rglob("*") if file.is_file()]
    assert sorted(result.out.splitlines()) == sorted(written)
    assert Path("few-pods/few_pods/py.typed").read_text() == ""
    plugin = Path("few-pods/few_pods/plugin.py").read_text()
    assert "def filter(" in plugin and "def score(" in plugin and "def permit(" not in plugin


def test_path_is_a_folder_elsewhere(run: Command) -> None:
    assert run("new", "plugins/here/few-pods").code == 0
    assert 'name = "few-pods"' in Path("plugins/here/few-pods/pyproject.toml").read_text()


def test_all_points_are_shown_on_request(run: Command) -> None:
    assert run("new", "few-pods", "--all-points").code == 0
    plugin = Path("few-pods/few_pods/plugin.py").read_text()
    assert "def filter(" in plugin and "def permit(" in plugin and "async def pre_bind(" in plugin


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["FewPods"],
            "NAME: 'FewPods' is not a valid name; use a-z, 0-9 and dashes, after a letter, such as 'few-pods'",
        ),
        (["there"], "NAME: there already exists; choose another name, or remove it"),
    ],
)
def test_mistake_is_one_line_and_writes_nothing(
    run: Command, working_directory: Path, arguments: list[str], error: str
) -> None:
    Path("there").mkdir()
    result = run("new", *arguments)
    assert result.code == 2
    assert result.errors[0].removeprefix("error: Invalid value for ").startswith(error)
    assert result.errors[1:] == ["See 'kframework new --help' for usage."]
    assert [each.name for each in working_directory.rglob("*")] == ["there"]


def test_folder_that_cannot_be_created_is_reported(run: Command) -> None:
    Path("file").touch()
    result = run("new", "file/few-pods")
    assert (result.code, result.errors) == (1, ["error: file/few-pods: Not a directory"])
