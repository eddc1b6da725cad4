"""The results of replays: the records of other engines that another configuration decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kframework.core.engine import Engine
from kframework.core.runtime.registry import Offer
from kframework.observe.recording import engines
from kframework.observe.recording.diff import DecisionDiff, ReplayResult
from kframework.observe.recording.engines import EngineKind
from tests.cli.conftest import Command
from tests.faults.recording_lines import Line, changed

BREWS = ("1", "2", "3", "5")


def otherwise(brew: str, pot: str, kind: str) -> DecisionDiff:
    return DecisionDiff(
        record="brew",
        name=brew,
        kind=kind,
        recorded={"cups": 2},
        replayed={"cups": 3},
        subject_kind="pot",
        subject=pot,
        at=1767225600.0 + int(brew),
        recorded_text="hot",
        replayed_text="cold",
        message=f"since {brew}",
        details={"tray": "tin"},
    )


class Tea(EngineKind[Engine]):
    """An engine whose answers another configuration changes."""

    name = "tea"

    def __init__(self, *found: DecisionDiff, cut_off: bool = False) -> None:
        self._result = ReplayResult(compared={"brew": BREWS}, differences=found, cut_off=cut_off)
        self.asked: list[tuple[str, str]] = []

    def rebuild(self, *made_of: object) -> Engine:
        raise AssertionError(made_of)

    def reconsider(self, file: Path, config: str) -> ReplayResult:
        self.asked.append((file.name, config))
        return self._result


Install = Callable[[EngineKind[Engine]], Path]


@pytest.fixture
def recorded(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a recording that is said to be of an engine, and install that."""

    def install(kind: EngineKind[Engine]) -> Path:
        offer = Offer(kind.name, lambda: kind, "kframework-tea 1.2", "tea:POT")
        monkeypatch.setattr(engines, "installed_offers", lambda group: [offer] if group == "kframework.engines" else [])
        assert (
            run(
                "simulate",
                "-f",
                "-",
                "--record",
                tmp_path / "run.rec",
                stdin="kind: NodeList\napiVersion: v1\nitems: []",
            ).code
            == 0
        )

        def rename(lines: list[Line]) -> None:
            lines[0] |= {"engine": kind.name, "distribution": offer.distribution}

        return changed(tmp_path / "run.rec", tmp_path / "tea.rec", rename)

    return install


MAX_MATCHES = (
    otherwise("1", "blue", "colder"),
    otherwise("1", "red", "colder"),
    otherwise("2", "blue", "colder"),
    otherwise("3", "blue", "colder"),
    otherwise("5", "blue", "colder"),
    otherwise("5", "red", "colder"),
)


def test_consecutive_differences_are_one_row(run: Command, recorded: Install) -> None:
    tea = Tea(*MAX_MATCHES)
    done = run("compare", "--recording", recorded(tea), "--config", "strong.yaml")
    assert done.code == 0 and tea.asked == [("tea.rec", "strong.yaml")]
    assert done.out.splitlines() == [
        "BREWS  POT   RECORDED  NOW   DIFFERENCE  MESSAGE",
        "1-5    blue  hot       cold  colder      since 1",
        "1      red   hot       cold  colder      since 1",
        "5      red   hot       cold  colder      since 5",
    ]
    assert done.errors[-1] == "4 brews replayed with strong.yaml: 6 different (6 colder)"


def test_another_difference_is_another_row(run: Command, recorded: Install) -> None:
    found = (otherwise("1", "blue", "colder"), otherwise("2", "blue", "spilt"), otherwise("3", "blue", "colder"))
    done = run("compare", "--recording", recorded(Tea(*found)), "--config", "strong.yaml")
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == ["1", "2", "3"]
    assert done.errors[-1].endswith(": 3 different (2 colder, 1 spilt)")


def test_wide_has_all_with_their_time(run: Command, recorded: Install) -> None:
    header, first, *rest = run(
        "compare", "--recording", recorded(Tea(*MAX_MATCHES)), "--config", "s", "-o", "wide"
    ).out.splitlines()
    assert header.split() == ["BREW", "TIME", "POT", "RECORDED", "NOW", "DIFFERENCE", "MESSAGE"]
    assert first.split() == ["1", "2026-01-01T00:00:01Z", "blue", "hot", "cold", "colder", "since", "1"]
    assert len(rest) == 5


def test_json_has_the_details(run: Command, recorded: Install) -> None:
    told = json.loads(run("compare", "--recording", recorded(Tea(MAX_MATCHES[0])), "--config", "s", "-o", "json").out)
    assert told == {
        "kind": "ReplayDifferences",
        "apiVersion": "kframework.dev/v1",
        "compared": {"brew": 4},
        "part": 1,
        "notRepeated": {"lateRejections": [], "earlierPods": [], "gatedPods": [], "hooks": []},
        "cutOff": False,
        "differences": [
            {
                "brew": "1",
                "at": 1767225601.0,
                "pot": "blue",
                "difference": "colder",
                "message": "since 1",
                "tray": "tin",
                "recorded": {"cups": 2},
                "now": {"cups": 3},
            }
        ],
    }


def test_agreement_is_reported(run: Command, recorded: Install) -> None:
    done = run("compare", "--recording", recorded(Tea(cut_off=True)), "--config", "s")
    assert (done.code, done.out) == (0, "")
    assert done.errors[-2:] == [
        "notice: the recording is incomplete: its writer was killed, or still runs",
        "4 brews replayed with s: all the same",
    ]


class Stubborn(Tea):
    """An engine that another configuration cannot be asked about."""

    reconsider = EngineKind.reconsider


def test_engine_without_reconsideration_is_reported(run: Command, recorded: Install) -> None:
    done = run("compare", "--recording", recorded(Stubborn()), "--config", "s")
    assert done.code == 1
    assert done.errors[-1] == "error: the engine 'tea' supports only a strict replay, kframework replay"


@pytest.mark.parametrize("options", [["--baseline", "weak.yaml"], ["--fail-over", "1%"], ["-o", "markdown"]])
def test_options_of_the_pod_engine_are_refused_for_others(run: Command, recorded: Install, options: list[str]) -> None:
    done = run("compare", "--recording", recorded(Tea()), "--config", "s", *options)
    assert done.code == 2 and "this one is of the engine 'tea'" in done.err
