"""Promises about reversals: `unreserve` undoes `reserve`, `remove_pod` undoes `add_pod`."""

from __future__ import annotations

from kframework.framework.cycle_state import CycleState
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing.contract.probe import PluginAnswers, PluginProbe
from kframework.values.status import Code, Status

#: How often an assignment is reserved and unreserved: what `unreserve` leaves behind adds up.
_REPETITIONS = 3
#: The most pods to reserve.
_MAX_PODS = 3

#: A pod and the row of a node that the plugin accepts for it.
Assignment = tuple[PendingPod, int]


# -- reserve, unreserve ------------------------------------------------------------------------------------------------


def check_unreserve(probe: PluginProbe) -> None:
    """Expect after `unreserve`, in every situation, the answers from before `reserve`."""
    before, assignments = _collect_answers(probe), choose_assignments(probe)
    for assignment in assignments:
        _unreserve(probe, prepare_attempt(probe, assignment), assignment)
    _expect_unchanged(probe, "unreserve, where nothing was reserved", before)
    for assignment in assignments * _REPETITIONS:
        _reserve_and_unreserve(probe, assignment)
    _expect_unchanged(probe, "reserve and unreserve, the latter twice", before)
    if len(assignments) > 1:
        _expect_isolation(probe, assignments[0], assignments[1], before)
    for assignment in assignments[-1:]:
        # After all reversals `reserve` answers like an instance that has reserved nothing yet.
        answer, fresh = (
            _reserve_and_unreserve(probe, assignment),
            _reserve_and_unreserve(probe.with_new_instance(), assignment),
        )
        if answer != fresh:
            result = f"answers {answer}, and {fresh} of a new instance, where nothing was ever reserved"
            remedy = f"{_UNRESERVE_REMEDY}; in `__init__`, count the pods that are in `handle.pods` already"
            probe.fail_hook("reserve", assignment[0], result, remedy, row=assignment[1])


def choose_assignments(probe: PluginProbe) -> list[Assignment]:
    """Choose pods, each with a node that the plugin accepts."""
    assignments = []
    for pod in probe.random.sample(probe.pods[::2], min(_MAX_PODS, len(probe.pods) // 2)):
        passing = probe.answers(pod).passing_rows(probe.nodes.order.tolist())
        if passing:
            assignments.append((pod, probe.random.choice(passing)))
    return assignments


def reserve(probe: PluginProbe, state: CycleState, assignment: Assignment) -> Status | None:
    """Call `reserve`, if the plugin has it."""
    pod, row = assignment
    if not probe.has("reserve"):
        return None
    answer = probe.call_hook("reserve", pod, state, pod, probe.nodes[row].name)
    if answer is not None and not isinstance(answer, Status):
        probe.fail_hook("reserve", pod, f"answers {answer!r}, which is no Status", "answer None or a Status")
    return answer


def prepare_attempt(probe: PluginProbe, assignment: Assignment) -> CycleState:
    """Return the state of an attempt that has selected this node."""
    pod, row = assignment
    state = CycleState()
    skipped = isinstance(probe.call_pre_filter(state, pod, probe.nodes), Status)
    if probe.filter is not None and not skipped:
        probe.call_filter(state, pod, row)
    return state


def _reserve_and_unreserve(probe: PluginProbe, assignment: Assignment) -> Status | None:
    state = prepare_attempt(probe, assignment)
    status = _assume(probe, state, assignment)
    _forget(probe, state, assignment)
    _unreserve(probe, state, assignment)
    return status


def _assume(probe: PluginProbe, state: CycleState, assignment: Assignment) -> Status | None:
    pod, row = assignment
    probe.cluster.state.assume(pod, probe.nodes[row].name)
    return reserve(probe, state, assignment)


def _forget(probe: PluginProbe, state: CycleState, assignment: Assignment) -> None:
    _unreserve(probe, state, assignment)
    probe.cluster.state.forget(assignment[0].uid)


def _unreserve(probe: PluginProbe, state: CycleState, assignment: Assignment) -> None:
    pod, row = assignment
    if probe.has("unreserve"):
        probe.call_hook("unreserve", pod, state, pod, probe.nodes[row].name)


def _expect_isolation(
    probe: PluginProbe, held: Assignment, other: Assignment, before: dict[PendingPod, PluginAnswers]
) -> None:
    state = prepare_attempt(probe, held)
    _assume(probe, state, held)
    reserved = _collect_answers(probe)
    _reserve_and_unreserve(probe, other)
    _expect_unchanged(probe, f"reserve and unreserve while pod {held[0].key} is reserved", reserved)
    _forget(probe, state, held)
    _expect_unchanged(probe, "unreserve after that of another pod", before)


def _collect_answers(probe: PluginProbe) -> dict[PendingPod, PluginAnswers]:
    """Return the plugin's current answers for each unassigned pod, except random ones."""
    pods = (pod for pod in probe.pods[::2] if pod.row < 0)
    collected = {pod: probe.evaluate(pod, probe.nodes, probe.nodes.order) for pod in pods}
    return {pod: answers for pod, answers in collected.items() if not answers.is_random}


def _expect_unchanged(probe: PluginProbe, calls: str, before: dict[PendingPod, PluginAnswers]) -> None:
    for pod, answers in _collect_answers(probe).items():
        if pod in before:
            probe.expect_same(f"{calls}, then all hooks", pod, answers, before[pod], _UNRESERVE_REMEDY)


_UNRESERVE_REMEDY = "undo in `unreserve` what `reserve` did for this pod, however often it is called, and nothing else"


# -- add_pod, remove_pod -----------------------------------------------------------------------------------------------


def check_remove_pod(probe: PluginProbe) -> None:
    """Expect a state with pods added and removed to answer like a new one."""
    for pod in probe.pods[::2]:
        state = CycleState()
        if not isinstance(probe.call_pre_filter(state, pod, probe.nodes), Status):
            _check_what_if(probe, state, pod)


def _check_what_if(probe: PluginProbe, state: CycleState, pod: PendingPod) -> None:
    node = probe.nodes[probe.random.choice(probe.nodes.order.tolist())]
    before, others = _filter_all(probe, state, pod), list(node.pods)
    with probe.cluster.state.statement() as statement:
        new = probe.cluster.next_pod()
        statement.add(new, node.name)
        _update_state(probe, "add_pod", state, pod, new, node.row)
        _expect_fresh_answers(probe, "add_pod", state, pod)
        statement.remove(new)
        _update_state(probe, "remove_pod", state, pod, new, node.row)
        _expect_same_statuses(probe, "add_pod and remove_pod", pod, _filter_all(probe, state, pod), before)
        for other in probe.random.sample(others, min(1, len(others))):
            statement.remove(other)
            _update_state(probe, "remove_pod", state, pod, other, node.row)
            _expect_fresh_answers(probe, "remove_pod", state, pod)
            statement.add(other, node.name)
            _update_state(probe, "add_pod", state, pod, other, node.row)
            _expect_same_statuses(probe, "remove_pod and add_pod", pod, _filter_all(probe, state, pod), before)


def _update_state(probe: PluginProbe, hook: str, state: CycleState, pod: PendingPod, other: PodInfo, row: int) -> None:
    if not probe.has(hook):
        return
    answer = probe.call_hook(hook, pod, state, pod, other, probe.nodes[row])
    if answer is not None and answer != Status(Code.SUCCESS):
        probe.fail_hook(hook, pod, f"answers {answer!r}", "account for the pod, and answer None", row=row)


def _expect_fresh_answers(probe: PluginProbe, hook: str, state: CycleState, pod: PendingPod) -> None:
    """Expect the answers of a state that is made from the current tables."""
    fresh = CycleState()
    pre_filter = probe.call_pre_filter(fresh, pod, probe.nodes)
    if not isinstance(pre_filter, Status):
        expected = _filter_all(probe, fresh, pod)
        _expect_same_statuses(probe, hook, pod, _filter_all(probe, state, pod), expected)


def _filter_all(probe: PluginProbe, state: CycleState, pod: PendingPod) -> PluginAnswers:
    if probe.filter is None:
        return PluginAnswers(None)
    rows = probe.nodes.order.tolist()
    return PluginAnswers(None, {row: probe.call_filter(state, pod, row) for row in rows})


def _expect_same_statuses(
    probe: PluginProbe, calls: str, pod: PendingPod, answers: PluginAnswers, expected: PluginAnswers
) -> None:
    remedy = "let add_pod and remove_pod change in `state` only what depends on the other pod, each the reverse"
    probe.expect_same(f"{calls}, then filter", pod, answers, expected, remedy)
