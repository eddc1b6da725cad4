"""Of one run page, explanations, spans, metrics and recording say the same about each session and each job's turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from kframework_batch.account import SessionAccount, SessionHistory, TurnOutcome
from kframework_batch.account_rows import queue_section
from kframework_batch.explain.explainer import explain_steps
from kframework_batch.session_metrics import SessionMetrics
from kframework_batch.session_spans import span_of
from kframework_batch.view import BatchView
from msgspec.structs import replace

from kframework.engine import History, Ref, run_to_end
from kframework.observe.recording.reader import RecordingReader
from tests.support import batch_runs
from tests.support.batch_runs import RecordedRun, readings

#: A turn: session, action, job, outcome, and how many tasks had a place of those that are needed.
Fact = tuple[str, str, str, str, int, int]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return batch_runs.waiting(tmp_path_factory.mktemp("same") / "run.rec")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return batch_runs.faulty(tmp_path_factory.mktemp("same") / "faulty.rec")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return batch_runs.crowded(tmp_path_factory.mktemp("same") / "crowded.rec")


def account_facts(accounts: Sequence[SessionAccount]) -> list[Fact]:
    return [
        (account.uid, turn.action, turn.job, turn.outcome.value, turn.had, turn.minimum)
        for account in accounts
        for turn in account.turns
    ]


def page(run: RecordedRun) -> list[Fact]:
    sessions = SessionHistory()
    for account in run.accounts:
        sessions.on_account(account)
    shown, facts = BatchView(run.engine, History(), sessions), list[Fact]()
    for account in run.accounts:
        for row in shown.details("session", account.uid).sections[0].rows:
            job, action, _, outcome, had = row.cells[:5]
            assert isinstance(job, Ref)
            had, minimum = map(int, re.findall(r"\d+", str(had)))
            facts.append((account.uid, str(action), job.name, str(outcome), had, minimum))
    return facts


def spans(run: RecordedRun) -> list[Fact]:
    facts = list[Fact]()
    for root in map(span_of, run.accounts):
        for turn in (turn for action in root.parts for turn in action.parts):
            at = {name.removeprefix("kframework."): value for name, value in turn.attributes.items()}
            counts = int(str(at["tasks.had"])), int(str(at["tasks.minimum"]))
            session = str(root.attributes["kframework.session"])
            facts.append((session, str(at["action"]), str(at["job"]), str(at["outcome"]), *counts))
    return facts


def recording(run: RecordedRun) -> list[Fact]:
    file = RecordingReader(run.file)
    return account_facts([file.read(line.body, SessionAccount) for line in file if line.what == "SessionAccount"])


def explained(run: RecordedRun) -> list[Fact]:
    """Say what explanations say of the last session in which a job had turns."""
    facts = list[Fact]()
    for job in run.engine.cache.jobs.values():
        found = run_to_end(explain_steps(run.engine, run.accounts[::-1], job))
        for turn in found.turns:
            facts.append((found.session, turn.action, turn.job, turn.outcome.value, turn.had, turn.minimum))
    return facts


def metrics(run: RecordedRun) -> dict[str, float]:
    counted = SessionMetrics()
    for account in run.accounts:
        counted.on_account(account)
    return readings(counted.series)


def totals(facts: Sequence[Fact], accounts: Sequence[SessionAccount]) -> dict[str, float]:
    """Return what metrics come to where these are the facts."""
    return {
        "volcano_e2e_scheduling_latency_milliseconds_count": len(accounts),
        "volcano_total_preemption_attempts": sum(fact[1] == "preempt" for fact in facts),
        'volcano_schedule_attempts_total{result="scheduled"}': sum(len(account.bound) for account in accounts),
    }


def disagreements(run: RecordedRun, lied_to: str, lied: RecordedRun) -> list[str]:
    """Name those who say something else than the recording; one of them has heard of another run."""
    voices: dict[str, Callable[[RecordedRun], list[Fact]]] = {"page": page, "spans": spans}
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


#: Anything that is said, with the session of which it is.
Said = tuple[object, ...]


def told_tasks(account: SessionAccount) -> list[Said]:
    return [
        (account.uid, turn.action, one.pod, one.node, one.promised, one.feasible, one.message)
        for turn in account.turns
        for one in turn.verdicts
    ]


def told_queues(account: SessionAccount) -> list[Said]:
    return [(account.uid, each.queue, each.weight, due(each.deserved), each.dominant) for each in account.queues]


def due(amounts: Mapping[str, int]) -> dict[str, int]:
    """Leave out what is nothing."""
    return {name: amount for name, amount in sorted(amounts.items()) if amount}


def told_ends(account: SessionAccount) -> list[Said]:
    bound = [(account.uid, "bound", pod, node) for pod, node in account.bound]
    evicted = [(account.uid, "evicted", pod, reason) for pod, reason in account.evicted]
    changed = (job for job in account.jobs if job.phase != job.next_phase)
    return [*bound, *evicted, *((account.uid, "phase", job.job, job.next_phase) for job in changed)]


def told_victims(account: SessionAccount) -> list[Said]:
    return [(account.uid, turn.job, tuple(each.pod for each in turn.victims)) for turn in account.turns if turn.victims]


def shown(run: RecordedRun, accounts: Sequence[SessionAccount]) -> BatchView:
    sessions = SessionHistory()
    for account in accounts:
        sessions.on_account(account)
    return BatchView(run.engine, History(), sessions)


def shown_tasks(run: RecordedRun, accounts: Sequence[SessionAccount]) -> list[Said]:
    pods = dict.fromkeys(one.pod for account in accounts for turn in account.turns for one in turn.verdicts)
    said = list[Said]()
    for pod in pods:
        (section, *_) = shown(run, accounts).details("pod", pod).sections
        for session, _, action, node, feasible, _, why in (row.cells for row in section.rows):
            assert isinstance(session, Ref)
            name, promised = (node.name, "promised" in node.text) if isinstance(node, Ref) else ("", False)
            said.append((session.name, action, pod, name, promised, feasible or 0, why))
    return said


def shown_queues(run: RecordedRun, accounts: Sequence[SessionAccount]) -> list[Said]:
    said = list[Said]()
    for account in accounts:
        for queue, weight, _, fills, _, dominant, _ in (
            row.cells for row in queue_section(account.queues, {}, account).rows
        ):
            assert isinstance(fills, Mapping)
            said.append((account.uid, queue, weight, due({name: pair[1] for name, pair in fills.items()}), dominant))
    return said


def shown_ends(run: RecordedRun, accounts: Sequence[SessionAccount]) -> list[Said]:
    said, word = list[Said](), {"bound": "bound", "evicted": "evicted", "phases": "phase"}
    for account in accounts:
        for section in shown(run, accounts).details("session", account.uid).sections:
            if section.name in word:
                for row in section.rows:
                    first, last = row.cells[0], row.cells[-1]
                    assert isinstance(first, Ref)
                    said.append((account.uid, word[section.name], first.name, getattr(last, "name", last)))
    return said


def traced_victims(run: RecordedRun, accounts: Sequence[SessionAccount]) -> list[Said]:
    turns = [(root, turn) for root in map(span_of, accounts) for action in root.parts for turn in action.parts]
    victims = "kframework.victims"
    return [
        (root.attributes["kframework.session"], turn.attributes["kframework.job"], turn.attributes[victims])
        for root, turn in turns
        if victims in turn.attributes
    ]


def counted_queues(run: RecordedRun, accounts: Sequence[SessionAccount]) -> list[Said]:
    """Say what gauges say after each session, as far as they say it."""
    said = list[Said]()
    for account in accounts:
        gauges = metrics(run._replace(accounts=[account]))
        for state in account.queues:
            at = f'{{queue_name="{state.queue}"}}'
            due = {"cpu": int(gauges[f"volcano_queue_deserved_milli_cpu{at}"])}
            said.append((account.uid, state.queue, int(gauges[f"volcano_queue_weight{at}"]), due))
    return said


Told = Callable[[SessionAccount], list[Said]]
Voice = Callable[[RecordedRun, Sequence[SessionAccount]], list[Said]]


def told_cpu(account: SessionAccount) -> list[Said]:
    """Say of queues what gauges say of them."""
    queues = account.queues
    return [(account.uid, each.queue, each.weight, {"cpu": each.deserved.get("cpu", 0)}) for each in queues]


def task(**changes: object) -> Callable[[SessionAccount], SessionAccount]:
    """Lie about each task."""

    def lie(account: SessionAccount) -> SessionAccount:
        return replace(
            account,
            turns=tuple(
                replace(turn, verdicts=tuple(replace(one, **changes) for one in turn.verdicts))
                for turn in account.turns
            ),
        )

    return lie


def queue(**changes: object) -> Callable[[SessionAccount], SessionAccount]:
    """Lie about each queue."""
    return lambda account: replace(account, queues=tuple(replace(each, **changes) for each in account.queues))


def phases(account: SessionAccount) -> SessionAccount:
    return replace(account, jobs=tuple(replace(job, phase="x", next_phase="y") for job in account.jobs))


def no_victims(account: SessionAccount) -> SessionAccount:
    return replace(account, turns=tuple(replace(turn, victims=()) for turn in account.turns))


#: Who says what, of which run, and lies about it.
VOICES: dict[str, tuple[str, Told, Voice, list[Callable[[SessionAccount], SessionAccount]]]] = {
    "the page of tasks": (
        "faulty",
        told_tasks,
        shown_tasks,
        [task(node="z"), task(promised=True, node="a"), task(feasible=99), task(message="else")],
    ),
    "the page of queues": (
        "faulty",
        told_queues,
        shown_queues,
        [queue(weight=99), queue(deserved={"cpu": 1}), queue(dominant=0.99), queue(queue="z")],
    ),
    "the page of sessions": (
        "crowded",
        told_ends,
        shown_ends,
        [
            phases,
            lambda account: replace(account, bound=account.bound[1:]),
            lambda account: replace(account, evicted=account.evicted[1:]),
        ],
    ),
    "the metrics of queues": ("faulty", told_cpu, counted_queues, [queue(weight=99), queue(deserved={"cpu": 1})]),
    "the spans of turns": ("crowded", told_victims, traced_victims, [no_victims]),
}


@pytest.mark.parametrize("voice", VOICES)
def test_all_records_have_the_same_tasks_queues_and_ends(voice: str, request: pytest.FixtureRequest) -> None:
    name, told, says, lies = VOICES[voice]
    run: RecordedRun = request.getfixturevalue(name)
    file = RecordingReader(run.file)
    accounts = [file.read(line.body, SessionAccount) for line in file if line.what == "SessionAccount"]
    truth = [each for account in accounts for each in told(account)]
    assert truth
    assert ordered(says(run, run.accounts)) == ordered(truth)
    for lie in lies:
        assert ordered(says(run, [lie(account) for account in run.accounts])) != ordered(truth)


def test_compared_runs_have_evictions_and_phase_changes(crowded: RecordedRun) -> None:
    assert any(turn.victims for account in crowded.accounts for turn in account.turns)
    assert any(account.evicted for account in crowded.accounts)
    assert any(job.phase != job.next_phase for account in crowded.accounts for job in account.jobs)


def ordered(said: Sequence[Said]) -> list[str]:
    """Sort what was said: a page has the newest session first."""
    return sorted(map(repr, said))


def test_all_records_agree(run: RecordedRun) -> None:
    assert len(recording(run)) > 10 and {fact[3] for fact in recording(run)} > {"committed", "admitted"}
    assert explained(run)
    assert disagreements(run, "", run) == []


LIES: dict[str, Callable[[SessionAccount], SessionAccount]] = {
    "another outcome": lambda account: replace(
        account, turns=tuple(replace(turn, outcome=TurnOutcome.INVALID) for turn in account.turns)
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
def test_planted_error_in_one_record_is_found(run: RecordedRun, voice: str, lie: str) -> None:
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
def test_planted_error_in_the_metrics_is_found(
    run: RecordedRun, lie: Callable[[list[SessionAccount]], list[SessionAccount]]
) -> None:
    lied = run._replace(accounts=lie(list(run.accounts)))
    assert disagreements(run, "metrics", lied) == ["metrics"]
