"""Recordings say what engine they are of, and those that are not installed are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.core.engine import Engine
from kframework.core.runtime.registry import Offer
from kframework.errors import ConfigError, InputError
from kframework.observe.recording import engines
from kframework.observe.recording.engines import EngineKind, distribution_of, kind_of_recording
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.replay import follow, replay
from tests.faults.recording_lines import Line, changed
from tests.observe.recording import rig


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Record nothing."""
    recorded = rig.RecordedRun(tmp_path / "recording")
    recorded.lines()
    return recorded.file


def of_engine(file: Path, name: str, distribution_of: str = "") -> Path:
    """Write the same recording as that of another engine."""

    def rename(lines: list[Line]) -> None:
        lines[0] |= {"engine": name, "distribution": distribution_of}

    return changed(file, file.with_name(name), rename)


@pytest.mark.parametrize(
    ("distribution", "remedy"),
    [
        ("kframework-tea 1.2", "install kframework-tea"),
        ("", "install a distribution that offers it under kframework.engines"),
    ],
)
def test_error_names_an_engine_that_is_not_installed(file: Path, distribution: str, remedy: str) -> None:
    tea = of_engine(file, "tea", distribution)
    with pytest.raises(InputError) as caught:
        replay(tea)
    assert str(caught.value) == f"{tea}:1: is of the engine 'tea', which is not installed: {remedy}"


def test_recording_without_an_engine_is_of_the_pod_engine(file: Path, tmp_path: Path) -> None:
    """So were all, before there were others."""

    def older(lines: list[Line]) -> None:
        del lines[0]["engine"], lines[0]["distribution"]

    assert replay(changed(file, tmp_path / "older", older)).difference is None


def test_installed_engine_is_found(file: Path) -> None:
    recorded = RecordingReader(of_engine(file, "batch"))
    kind = kind_of_recording(recorded)
    assert isinstance(kind, EngineKind) and kind.name == "batch"
    assert distribution_of("batch").startswith("kframework-batch ") and distribution_of("tea") == ""


def test_entry_point_that_is_not_an_engine_kind_raises(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = Offer("tea", lambda: "a pot", "kframework-tea 1.2", "tea:POT")
    monkeypatch.setattr(engines, "installed_offers", lambda group: [offer] if group == "kframework.engines" else [])
    with pytest.raises(InputError, match=r"tea:POT of kframework-tea 1\.2 is not an EngineKind"):
        replay(of_engine(file, "tea"))


def test_engine_kind_rejects_reconsideration_by_default(file: Path) -> None:
    class Tea(EngineKind[Engine]):
        name = "tea"

        def rebuild(self, *made_of: object) -> Engine:
            raise AssertionError(made_of)

    with pytest.raises(ConfigError, match="the engine 'tea' supports only a strict replay, kframework replay"):
        Tea().reconsider(file, "strong.yaml")


def test_only_pod_engine_recordings_can_be_followed(file: Path) -> None:
    with pytest.raises(InputError, match="is of the engine 'batch', which supports only a strict replay"):
        follow(of_engine(file, "batch"))
