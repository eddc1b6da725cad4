"""All accounts of a run agree: each, as it is read back outside, says what the recording says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from kframework.observe.metrics.attempts import EXTENSION_POINTS
from kframework.values.status import Code
from tests.properties.run_output import Json, RunOutput, record_run

SEEDS = (1, 2, 3)

#: Longer notes are cut.
NOTE = 1024

#: As exactly is the moment of an event known.
MICROSECOND = 2e-6

IN_MEMORY = " (in kube-scheduler memory)."


@pytest.fixture(scope="module", params=SEEDS)
def accounts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunOutput:
    """Read the accounts of a random run."""
    return record_run(request.param, tmp_path_factory.mktemp("accounts"))


class Failure(NamedTuple):
    """An attempt that failed, in its cycle or while its pod was bound."""

    attempt: int
    uid: str
    at: float
    code: Code
    message: str

    @property
    def reason(self) -> str:
        """The reason in the pod's condition."""
        return "Unschedulable" if self.code.is_rejected else "SchedulerError"


def failures(accounts: RunOutput) -> list[Failure]:
    """List the attempts that failed, in the order in which they did."""
    ends = [(each["poppedAt"], each) for each in accounts.decisions if each["result"] != "scheduled"]
    ends += [(each["endedAt"], each) for each in accounts.bindings if each["code"] != Code.SUCCESS]
    ends.sort(key=lambda end: (end[0], end[1]["attempt"]))
    return [Failure(end["attempt"], end["uid"], at, Code(end["code"]), end["message"]) for at, end in ends]


def bound(accounts: RunOutput) -> dict[str, Json]:
    """Return the bindings that went well, by pod."""
    return {each["uid"]: each for each in accounts.bindings if each["code"] == Code.SUCCESS}


def last(records: Iterable[Json]) -> dict[str, Json]:
    """Return the last record of each pod."""
    return {record["uid"]: record for record in records}


def differ(what: str, told: object, recorded: object) -> Iterator[str]:
    if told != recorded:
        yield f"{what}: told {told!r}, recorded {recorded!r}"


def stored_status(accounts: RunOutput) -> Iterator[str]:
    """A pod's node is the one it was bound to last, its condition says why its last attempt failed."""
    why, nodes = {each.uid: each for each in failures(accounts)}, bound(accounts)
    for pod in accounts.pods:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        yield from differ(f"node of {name}", pod["spec"].get("nodeName"), nodes.get(uid, {}).get("node"))
        conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
        condition = conditions.get("PodScheduled", {})
        if condition.get("status") == "False" and condition["reason"] != "SchedulingGated":
            failure = why.get(uid)
            told = condition["reason"], condition["message"]
            yield from differ(f"condition of {name}", told, failure and (failure.reason, failure.message))
        elif uid not in nodes:
            yield from differ(f"condition of {name}", None, why.get(uid))


def event_notes(accounts: RunOutput) -> Iterator[str]:
    """Each event tells of an attempt or a binding of its moment, and of each of them there are events."""
    failed, nodes, names = failures(accounts), bound(accounts), Counter[tuple[str, str]]()
    for event in accounts.events:
        uid, note, reason = event["regarding"]["uid"], event["note"], event["reason"]
        names[uid, reason] += 1
        at = datetime.fromisoformat(event["eventTime"]).timestamp()
        if reason == "FailedScheduling" and not note.startswith("skip schedule deleting pod"):
            then = {cut(each.message) for each in failed if each.uid == uid and abs(each.at - at) < MICROSECOND}
            yield from differ(f"event of {pod_of(event)}", note, note if note in then else then)
        elif reason == "Scheduled":
            to = nodes.get(uid, {"pod": "", "node": ""})
            yield from differ("event", note, f"Successfully assigned {to['pod']} to {to['node']}")
        elif reason == "Preempted":
            by = [each for each in accounts.decisions if pod_of(event) in each["victims"]]
            notes = {f"Preempted by pod {each['uid']} on node {each['nominated']}" for each in by}
            yield from differ(f"event of {pod_of(event)}", notes >= {note.removesuffix(IN_MEMORY)}, True)
    yield from differ("pods said to be bound", {u for u, reason in names if reason == "Scheduled"}, nodes.keys())
    unhappy = {uid for uid, reason in names if reason == "FailedScheduling"}
    yield from differ("pods without a word", {each.uid for each in failed} - unhappy, set())


def cut(message: str) -> str:
    return message if len(message) <= NOTE else f"{message[: NOTE - 4]} ..."


def pod_of(event: Json) -> str:
    return f"{event['regarding']['namespace']}/{event['regarding']['name']}"


def spans(accounts: RunOutput) -> Iterator[str]:
    """Each attempt and each binding cycle has its spans, in one trace, with what the records say."""
    roots, cycles = by_attempt(accounts, "scheduling_attempt"), by_attempt(accounts, "scheduling_cycle")
    bindings = by_attempt(accounts, "binding_cycle")
    yield from differ("attempts", roots.keys(), {each["attempt"] for each in accounts.decisions})
    yield from differ("cycles", cycles.keys(), roots.keys())
    yield from differ("binding cycles", bindings.keys(), {each["attempt"] for each in accounts.bindings})
    yield from differ("traces", len({root["traceId"] for root in roots.values()}), len(roots))
    parts: dict[str, list[Json]] = {}
    for span in accounts.spans:
        parts.setdefault(span["parentSpanId"], []).append(span)
    for decision in accounts.decisions:
        attempt = decision["attempt"]
        if attempt in cycles:
            yield from differ(
                f"tries of {attempt}", roots[attempt]["attributes"]["kframework.pod_attempts"], decision["podAttempts"]
            )
            yield from span_of_attempt(cycles[attempt], decision)
            yield from points_in_span(cycles[attempt], parts, decision["timings"], decision["plugins"])
    for binding in accounts.bindings:
        if binding["attempt"] in bindings:
            span, cycle = bindings[binding["attempt"]], cycles[binding["attempt"]]
            yield from span_of_binding(span, binding)
            yield from points_in_span(span, parts, binding["steps"], binding["plugins"])
            link = {"traceId": cycle["traceId"], "spanId": cycle["spanId"]}
            yield from differ("link", (span["links"], span["traceId"]), ([link], cycle["traceId"]))


def by_attempt(accounts: RunOutput, name: str) -> dict[int, Json]:
    return {span["attributes"]["kframework.attempt"]: span for span in accounts.spans if span["name"] == name}


def points_in_span(
    span: Json, parts: Mapping[str, list[Json]], timings: list[list[Any]], plugins: list[list[Any]]
) -> Iterator[str]:
    """There is a part for each extension point, as long as it took, with the plugins that were timed.

    Those that say nothing may have none.
    """
    told = [(part["name"], length(part), part["attributes"].get("kframework.status")) for part in parts[span["spanId"]]]
    asked = {"sign", "assume", *(hook for hook, *_ in plugins)}
    recorded = [
        (point, spent, status_of(code))
        for point, spent, code in timings
        if point in asked or code != Code.SUCCESS or point not in ("permit", "post_bind")
    ]
    # The wait for Permit is as long as it was on the clock, which this machine did not notice.
    yield from differ(
        "points", [each for each in told if each[0] != WAIT], [each for each in recorded if each[0] != WAIT]
    )
    spent_by, seen = Counter[str](), set[tuple[str, str]]()
    for name, value in (item for each in (span, *parts[span["spanId"]]) for item in each["attributes"].items()):
        _, _, plugin = name.partition("kframework.plugin.")
        if plugin.endswith(".status"):
            seen.add((plugin.removesuffix(".status"), value))
        elif plugin:
            spent_by[plugin] += round(value * 1e9)
    recorded_by = Counter[str]()
    for _, plugin, spent, _ in plugins:
        recorded_by[plugin] += spent
    yield from differ("plugins", spent_by, recorded_by)
    yield from differ(
        "their ends", seen, {(plugin, said) for _, plugin, _, code in plugins if (said := status_of(code))}
    )


def status_of(code: int) -> str | None:
    """Return the status as a span has it: of Success nothing is said."""
    return Code(code).title if code != Code.SUCCESS else None


def length(span: Json) -> int:
    return int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])


def span_of_attempt(span: Json, decision: Json) -> Iterator[str]:
    said = {
        "kframework.result": decision["result"],
        "kframework.nodes.total": decision["nodes"],
        "kframework.nodes.evaluated": decision["evaluated"],
        "kframework.nodes.feasible": decision["feasible"],
        "kframework.message": decision["message"],
        "kframework.rejectors": decision["rejectors"],
        "kframework.victims": decision["victims"],
        "kframework.nominated_node": decision["nominated"],
        "k8s.node.name": decision["node"],
    }
    yield from span_of(span, decision, said, failed=decision["result"] == "error")


def span_of_binding(span: Json, binding: Json) -> Iterator[str]:
    code = Code(binding["code"])
    said = {
        "kframework.result": code.title,
        "kframework.message": binding["message"],
        "k8s.node.name": binding["node"],
    }
    yield from span_of(span, binding, said, failed=code is not Code.SUCCESS and not code.is_rejected)


def span_of(span: Json, record: Json, said: Json, *, failed: bool) -> Iterator[str]:
    attributes, attempt = span["attributes"], record["attempt"]
    pod = f"{attributes['k8s.namespace.name']}/{attributes['k8s.pod.name']}"
    who = pod, attributes["k8s.pod.uid"], attributes["kframework.profile"]
    yield from differ(f"span of attempt {attempt}", who, (record["pod"], record["uid"], record["profile"]))
    for key, value in said.items():
        yield from differ(f"{key} of attempt {attempt}", attributes.get(key) or None, value or None)
    yield from differ(f"status of attempt {attempt}", span["status"]["code"] == 2, failed)


def metrics(accounts: RunOutput) -> Iterator[str]:
    """Counts match the recording; the content of the queue matches the explanations."""
    done = bound(accounts).values()
    attempts = {each["attempt"]: each for each in accounts.decisions}
    tries = [attempts[each["attempt"]]["podAttempts"] for each in done]
    victims = [len(each["victims"]) for each in accounts.decisions if each["victims"]]
    states = Counter(each["state"] for each in accounts.explanations.values())
    recorded: dict[str, Mapping[tuple[str, ...], int]] = {
        "schedule_attempts_total": Counter(ends(accounts)),
        "scheduling_attempt_duration_seconds_count": Counter(ends(accounts)),
        "scheduling_algorithm_duration_seconds_count": {(): len(accounts.decisions)},
        "pod_scheduling_attempts_count": {(): len(tries)},
        "pod_scheduling_attempts_sum": {(): sum(tries)},
        "preemption_victims_count": {(): len(victims)},
        "preemption_victims_sum": {(): sum(victims)},
        "framework_extension_point_duration_seconds_count": Counter(points(accounts)),
        "plugin_execution_duration_seconds_count": Counter(plugins(accounts)),
        "pending_pods": {(queue,): states[queue] for queue in ("active", "backoff", "unschedulable", "gated")},
        "unschedulable_pods": Counter(holders(accounts)),
    }
    for name, counts in recorded.items():
        yield from differ(name, series(accounts, name), {labels: count for labels, count in counts.items() if count})


def series(accounts: RunOutput, name: str) -> dict[tuple[str, ...], int]:
    """Return a metric by its labels, in the order of their names; what PreEnqueue takes is in no record."""
    return {
        tuple(value for _, value in labels): int(value)
        for (each, labels), value in accounts.samples.items()
        if each == f"scheduler_{name}" and value and ("extension_point", "PreEnqueue") not in labels
    }


def ends(accounts: RunOutput) -> Iterator[tuple[str, ...]]:
    """Yield how each attempt ended that has."""
    yield from ((each["profile"], "scheduled") for each in bound(accounts).values())
    profiles = {each["attempt"]: each["profile"] for each in accounts.decisions}
    for each in failures(accounts):
        yield profiles[each.attempt], "unschedulable" if each.code.is_rejected else "error"


def points(accounts: RunOutput) -> Iterator[tuple[str, ...]]:
    for record in (*accounts.decisions, *accounts.bindings):
        timings = record.get("timings", ()) or record["steps"]
        if {"pre_score", "score"} & {point for point, *_ in timings} == {"score"}:
            timings = [*timings, ("pre_score", 0, Code.SUCCESS)]  # it was run, though no plugin had work there
        for point, _, code in timings:
            if point in EXTENSION_POINTS:
                yield EXTENSION_POINTS[point], record["profile"], Code(code).title


def plugins(accounts: RunOutput) -> Iterator[tuple[str, ...]]:
    for record in (*accounts.decisions, *accounts.bindings):
        for hook, plugin, _, code in record["plugins"]:
            yield EXTENSION_POINTS[hook], plugin, Code(code).title


def holders(accounts: RunOutput) -> Iterator[tuple[str, ...]]:
    for explanation in accounts.explanations.values():
        if explanation["state"] in ("unschedulable", "gated"):
            yield from ((plugin, explanation["profile"]) for plugin in explanation["waiting"]["heldBy"])


def explanations(accounts: RunOutput) -> Iterator[str]:
    """What an explanation says of the past are the records, what it says of the present is what is stored."""
    decisions, bindings = last(accounts.decisions), {each["attempt"]: each for each in accounts.bindings}
    for pod in accounts.pods:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        told = accounts.explanations.get(uid)
        if told is None:
            yield from differ(f"phase of {name}", pod["status"].get("phase") in ("Succeeded", "Failed"), True)
            continue
        decision = decisions.get(uid)
        yield from differ(f"last attempt at {name}", told["lastDecision"], decision and {"group": "", **decision})
        yield from differ(f"last binding of {name}", told["binding"], decision and bindings.get(decision["attempt"]))
        yield from differ(f"attempts at {name}", told["attempts"], decision["podAttempts"] if decision else 0)
        yield from differ(f"{name} is bound", told["state"] == "bound", uid in bound(accounts))
        if told["state"] == "bound":
            yield from differ(f"node of {name}", told["node"], pod["spec"]["nodeName"])
        held_by = (told["waiting"] or {}).get("heldBy", ())
        if told["state"] == "unschedulable" and decision:
            yield from differ(f"what holds {name}", sorted(held_by), decision["rejectors"])


def log(accounts: RunOutput) -> Iterator[str]:
    """A line tells of each attempt where its pod went, or why it has to wait; others count as the metrics do."""
    lines = [each for each in accounts.log if each["msg"] not in ("Slow scheduling attempt", PREEMPTION, MOVED)]
    told = Counter(
        (each["attempt"], each.get("node") if "err" not in each else None, each.get("err")) for each in lines
    )
    recorded = Counter[object]((each["attempt"], each["node"], None) for each in bound(accounts).values())
    recorded.update((each.attempt, None, each.message) for each in failures(accounts))
    yield from differ("lines", told, recorded)
    preempting = {
        each["attempt"]: (each["node"], each["victims"]) for each in accounts.log if each["msg"] == PREEMPTION
    }
    chosen = {each["attempt"]: (each["nominated"], each["victims"]) for each in accounts.decisions if each["victims"]}
    yield from differ("preemptions", preempting, chosen)
    moves = Counter((each["event"], each["queue"]) for each in accounts.log if each["msg"] == MOVED)
    yield from differ("moves", moves, series(accounts, "queue_incoming_pods_total"))


WAIT = "wait_on_permit"
MOVED = "Pod moved to an internal scheduling queue"
PREEMPTION = "The target node for the preemption is determined"


ACCOUNTS = (stored_status, event_notes, spans, metrics, explanations, log)


@pytest.mark.slow
@pytest.mark.parametrize("account", ACCOUNTS)
def test_output_agrees_with_the_recording(accounts: RunOutput, account: Callable[[RunOutput], Iterator[str]]) -> None:
    problems = list(account(accounts))
    assert not problems, "\n".join(problems[:10])


@pytest.mark.slow
def test_run_contains_every_kind_of_outcome(accounts: RunOutput) -> None:
    codes = {Code(each.code) for each in failures(accounts)}
    assert codes >= {Code.UNSCHEDULABLE, Code.ERROR}
    assert len(bound(accounts)) > 20
    assert {"Scheduled", "FailedScheduling"} <= {each["reason"] for each in accounts.events}
    assert {"bound", "gated"} <= {each["state"] for each in accounts.explanations.values()}


def with_lies(accounts: RunOutput) -> RunOutput:
    """Return a recording that tells otherwise of every attempt."""
    lie = {
        "message": "a lie",
        "node": "nowhere",
        "nominated": "nowhere",
        "podAttempts": 99,
        "result": "error",
        "code": 1,
    }
    decisions = [each | {key: value for key, value in lie.items() if key in each} for each in accounts.decisions]
    bindings = [each | {"code": 1, "message": "a lie"} for each in accounts.bindings]
    return accounts._replace(decisions=decisions, bindings=bindings)


def with_less(accounts: RunOutput) -> RunOutput:
    """Return a recording without the last attempt at any pod."""
    missing = {each["attempt"] for each in last(accounts.decisions).values()}
    return accounts._replace(
        decisions=[each for each in accounts.decisions if each["attempt"] not in missing],
        bindings=[each for each in accounts.bindings if each["attempt"] not in missing],
    )


@pytest.mark.long
@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("falsified", [with_lies, with_less])
def test_altered_output_is_detected(
    accounts: RunOutput, account: Callable[[RunOutput], Iterator[str]], falsified: Callable[[RunOutput], RunOutput]
) -> None:
    assert any(account(falsified(accounts)))
