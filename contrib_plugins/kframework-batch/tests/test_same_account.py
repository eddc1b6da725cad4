"""Of one run page, explanations, spans, metrics and recording say the same about each session and each job's turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from kframework_batch.account import Outcome, SessionAccount
from kframework_batch.config import parse
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.account import explain
from kframework_batch.program import compile_program
from kframework_batch.recording import recorded
from kframework_batch.scenario import make_job
from kframework_batch.session_history import SessionHistory
from kframework_batch.session_metrics import SessionMetrics
from kframework_batch.session_spans import span_of
from kframework_batch.settings import Settings
from kframework_batch.shown import BatchShown
from kframework_batch.simulation import simulate_batch
from kframework_batch.testing import make_queue
from msgspec.structs import replace

from kframework.observe.metrics.series import written
from kframework.observe.recording.reader import Recorded
from kframework.observe.recording.writer import Recorder
from kframework.observe.showing import History, Ref
from kframework.testing import make_node

CONFIGURATION = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""

#: A turn: session, action, job, outcome, and how many tasks had a place of those that are needed.
Fact = tuple[str, str, str, str, int, int]


class Run(NamedTuple):
    """What is left of a run: its engine, what it was recorded in, and its accounts, the oldest first."""

    engine: BatchEngine
    file: Path
    accounts: Sequence[SessionAccount]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Let jobs wait for each other, and one for ever."""
    file = tmp_path_factory.mktemp("same") / "run.rec"
    settings, recorder = Settings(compile_program(parse(CONFIGURATION)), period=0.5, seed=7), Recorder(file)
    jobs = [make_job(f"job-{number}", 2, cpu=2, queue="q", seconds=3.0 + number) for number in range(4)]
    objects = [make_queue("q"), *(make_node(name, cpu=4) for name in ("a", "b")), *jobs]
    objects.append(make_job("large", 9, cpu=2, queue="q"))
    engines, history = list[BatchEngine](), SessionHistory()
    simulate_batch(
        objects,
        settings,
        observers=[recorder, history],
        engine=recorded(settings, recorder),
        duration=60.0,
        on_end=lambda scheduler: engines.append(scheduler.engine),
    )
    recorder.close()
    return Run(engines[0], file, list(history)[::-1])


# -- what each says ----------------------------------------------------------------------------------------------------


def account_facts(accounts: Sequence[SessionAccount]) -> list[Fact]:
    return [
        (account.uid, turn.action, turn.job, turn.outcome.value, turn.had, turn.minimum)
        for account in accounts
        for turn in account.turns
    ]


def page(run: Run) -> list[Fact]:
    sessions = SessionHistory()
    for account in run.accounts:
        sessions.accounted(account)
    shown, facts = BatchShown(run.engine, History(), sessions), list[Fact]()
    for account in run.accounts:
        for row in shown.details("session", account.uid).sections[0].rows:
            job, action, _, outcome, had = row.cells[:5]
            assert isinstance(job, Ref)
            had, minimum = map(int, re.findall(r"\d+", str(had)))
            facts.append((account.uid, str(action), job.name, str(outcome), had, minimum))
    return facts


def spans(run: Run) -> list[Fact]:
    facts = list[Fact]()
    for root in map(span_of, run.accounts):
        for turn in (turn for action in root.parts for turn in action.parts):
            at = {name.removeprefix("kframework."): value for name, value in turn.attributes.items()}
            counts = int(str(at["tasks.had"])), int(str(at["tasks.minimum"]))
            session = str(root.attributes["kframework.session"])
            facts.append((session, str(at["action"]), str(at["job"]), str(at["outcome"]), *counts))
    return facts


def recording(run: Run) -> list[Fact]:
    file = Recorded(run.file)
    return account_facts([file.read(line.body, SessionAccount) for line in file if line.what == "SessionAccount"])


def explained(run: Run) -> list[Fact]:
    """Say what explanations say of the last session in which a job had turns."""
    facts = list[Fact]()
    for job in run.engine.cache.jobs.values():
        found = explain(run.engine, run.accounts[::-1], job)
        for turn in found.turns:
            facts.append((found.session, turn.action, turn.job, turn.outcome.value, turn.had, turn.minimum))
    return facts


def metrics(run: Run) -> dict[str, float]:
    counted = SessionMetrics()
    for account in run.accounts:
        counted.accounted(account)
    text = "".join(piece for series in counted.series for piece in written(series))
    return {name: float(value) for name, value in re.findall(r"^(volcano_\S+) (\S+)$", text, re.MULTILINE)}


def totals(facts: Sequence[Fact], accounts: Sequence[SessionAccount]) -> dict[str, float]:
    """Return what metrics come to where these are the facts."""
    return {
        "volcano_e2e_scheduling_latency_milliseconds_count": len(accounts),
        "volcano_total_preemption_attempts": sum(fact[1] == "preempt" for fact in facts),
        'volcano_schedule_attempts_total{result="scheduled"}': sum(len(account.bound) for account in accounts),
    }


def disagreements(run: Run, lied_to: str, lied: Run) -> list[str]:
    """Name those who say something else than the recording; one of them has heard of another run."""
    voices: dict[str, Callable[[Run], list[Fact]]] = {"page": page, "spans": spans}
    told = recording(run)
    found = [name for name, voice in voices.items() if voice(lied if name == lied_to else run) != told]
    said = explained(lied if lied_to == "explain" else run)
    last = {fact[2]: fact[0] for fact in told}
    if sorted(said) != sorted(f for f in told if f[2] in run.engine.cache.jobs and f[0] == last[f[2]]):
        found.append("explain")
    counted = metrics(lied if lied_to == "metrics" else run)
    if any(counted.get(name) != value for name, value in totals(told, run.accounts).items()):
        found.append("metrics")
    return found


# -- the tests ---------------------------------------------------------------------------------------------------------


def test_all_say_the_same(run: Run) -> None:
    assert len(recording(run)) > 10 and {fact[3] for fact in recording(run)} > {"committed", "admitted"}
    assert explained(run)
    assert disagreements(run, "", run) == []


LIES: dict[str, Callable[[SessionAccount], SessionAccount]] = {
    "another outcome": lambda account: replace(
        account, turns=tuple(replace(turn, outcome=Outcome.INVALID) for turn in account.turns)
    ),
    "one more had a place": lambda account: replace(
        account, turns=tuple(replace(turn, had=turn.had + 1) for turn in account.turns)
    ),
    "needs one more": lambda account: replace(
        account, turns=tuple(replace(turn, minimum=turn.minimum + 1) for turn in account.turns)
    ),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("voice", ["page", "spans", "explain"])
def test_a_lie_in_one_of_them_is_found(run: Run, voice: str, lie: str) -> None:
    lied = run._replace(accounts=[LIES[lie](account) for account in run.accounts])
    assert disagreements(run, voice, lied) == [voice]


@pytest.mark.parametrize(
    "lie",
    [
        lambda accounts: accounts[1:],
        lambda accounts: [replace(account, bound=account.bound[1:]) for account in accounts],
        lambda accounts: [replace(account, turns=()) for account in accounts],
    ],
    ids=["a session less", "one bound less", "no turns"],
)
def test_a_lie_in_the_metrics_is_found(run: Run, lie: Callable[[list[SessionAccount]], list[SessionAccount]]) -> None:
    lied = run._replace(accounts=lie(list(run.accounts)))
    assert disagreements(run, "metrics", lied) == ["metrics"]
