"""Promises about what is undone: `unreserve` undoes `reserve`, `remove_pod` undoes `add_pod`."""

from __future__ import annotations

from kframework.framework.cycle_state import CycleState
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing.contract.questions import Answers, Questions
from kframework.values.status import Code, Status

#: So often a place is reserved and given back: what is not given back adds up.
_TIMES = 3
#: The number of pods that are placed.
_PLACED = 3

#: A pod and the row of a node that the plugin lets it onto.
Place = tuple[PendingPod, int]


# -- reserve, unreserve ------------------------------------------------------------------------------------------------


def unreserve_undoes_reserve(questions: Questions) -> None:
    """Expect after `unreserve`, in every situation, the answers from before `reserve`."""
    before, chosen = _picture(questions), places(questions)
    for place in chosen:
        _unreserve(questions, ready(questions, place), place)
    _as_before(questions, "unreserve, where nothing was reserved", before)
    for place in chosen * _TIMES:
        _come_and_go(questions, place)
    _as_before(questions, "reserve and unreserve, the latter twice", before)
    if len(chosen) > 1:
        _leave_others_alone(questions, chosen[0], chosen[1], before)
    for place in chosen[-1:]:
        # After all that was undone, `reserve` answers like an instance that has reserved nothing yet.
        said, fresh = _come_and_go(questions, place), _come_and_go(questions.anew(), place)
        if said != fresh:
            answered = f"says {said}, and {fresh} where nothing was ever reserved"
            questions.violated("reserve", place[0], answered, _GIVE_BACK, row=place[1])


def places(questions: Questions) -> list[Place]:
    """Choose pods and nodes that the plugin lets them onto."""
    found = []
    for pod in questions.random.sample(questions.pods[::2], min(_PLACED, len(questions.pods) // 2)):
        passing = questions.answers(pod).passing(questions.nodes.order.tolist())
        if passing:
            found.append((pod, questions.random.choice(passing)))
    return found


def reserve(questions: Questions, state: CycleState, place: Place) -> Status | None:
    """Call `reserve`, if the plugin has it."""
    pod, row = place
    if not questions.has("reserve"):
        return None
    answer = questions.said("reserve", pod, state, pod, questions.nodes[row].name)
    if answer is not None and not isinstance(answer, Status):
        questions.violated("reserve", pod, f"answers {answer!r}, which is no Status", "answer None or a Status")
    return answer


def ready(questions: Questions, place: Place) -> CycleState:
    """Return the state of an attempt that has selected this node."""
    pod, row = place
    state = CycleState()
    skipped = isinstance(questions.asked_whole(state, pod, questions.nodes), Status)
    if questions.filter is not None and not skipped:
        questions.asked_filter(state, pod, row)
    return state


def _come_and_go(questions: Questions, place: Place) -> Status | None:
    """Reserve a place and unreserve it, twice; return the answers of `reserve`."""
    state = ready(questions, place)
    status = _assumed(questions, state, place)
    _forgotten(questions, state, place)
    _unreserve(questions, state, place)
    return status


def _assumed(questions: Questions, state: CycleState, place: Place) -> Status | None:
    pod, row = place
    questions.cluster.state.assume(pod, questions.nodes[row].name)
    return reserve(questions, state, place)


def _forgotten(questions: Questions, state: CycleState, place: Place) -> None:
    _unreserve(questions, state, place)
    questions.cluster.state.forget(place[0].uid)


def _unreserve(questions: Questions, state: CycleState, place: Place) -> None:
    pod, row = place
    if questions.has("unreserve"):
        questions.said("unreserve", pod, state, pod, questions.nodes[row].name)


def _leave_others_alone(questions: Questions, held: Place, other: Place, before: dict[PendingPod, Answers]) -> None:
    """Expect that one pod's reservation outlives another's."""
    state = ready(questions, held)
    _assumed(questions, state, held)
    beside = _picture(questions)
    _come_and_go(questions, other)
    _as_before(questions, f"reserve and unreserve while pod {held[0].key} is reserved", beside)
    _forgotten(questions, state, held)
    _as_before(questions, "unreserve after that of another pod", before)


def _picture(questions: Questions) -> dict[PendingPod, Answers]:
    """Return the plugin's current answers for each unplaced pod, except those for which it draws."""
    pods = (pod for pod in questions.pods[::2] if pod.row < 0)
    said = {pod: questions.answers_given(pod, questions.nodes, questions.nodes.order) for pod in pods}
    return {pod: answers for pod, answers in said.items() if not answers.drew}


def _as_before(questions: Questions, done: str, before: dict[PendingPod, Answers]) -> None:
    for pod, answers in _picture(questions).items():
        if pod in before:
            questions.same(f"{done}, then everything", pod, answers, before[pod], _GIVE_BACK)


_GIVE_BACK = "give back in `unreserve` what `reserve` took for this pod, as often as it is called, and nothing else"


# -- add_pod, remove_pod -----------------------------------------------------------------------------------------------


def remove_pod_undoes_add_pod(questions: Questions) -> None:
    """Expect a state with pods added and removed to answer like a new one."""
    for pod in questions.pods[::2]:
        state = CycleState()
        if not isinstance(questions.asked_whole(state, pod, questions.nodes), Status):
            _what_if(questions, state, pod)


def _what_if(questions: Questions, state: CycleState, pod: PendingPod) -> None:
    node = questions.nodes[questions.random.choice(questions.nodes.order.tolist())]
    before, others = _filtered(questions, state, pod), list(node.pods)
    with questions.cluster.state.statement() as statement:
        new = questions.cluster.another_pod()
        statement.add(new, node.name)
        _tell(questions, "add_pod", state, pod, new, node.row)
        _accounted(questions, "add_pod", state, pod)
        statement.remove(new)
        _tell(questions, "remove_pod", state, pod, new, node.row)
        _expect(questions, "add_pod and remove_pod", pod, _filtered(questions, state, pod), before)
        for other in questions.random.sample(others, min(1, len(others))):
            statement.remove(other)
            _tell(questions, "remove_pod", state, pod, other, node.row)
            _accounted(questions, "remove_pod", state, pod)
            statement.add(other, node.name)
            _tell(questions, "add_pod", state, pod, other, node.row)
            _expect(questions, "remove_pod and add_pod", pod, _filtered(questions, state, pod), before)


def _tell(questions: Questions, hook: str, state: CycleState, pod: PendingPod, other: PodInfo, row: int) -> None:
    if not questions.has(hook):
        return
    answer = questions.said(hook, pod, state, pod, other, questions.nodes[row])
    if answer is not None and answer != Status(Code.SUCCESS):
        questions.violated(hook, pod, f"answers {answer!r}", "account for the pod, and answer None", row=row)


def _accounted(questions: Questions, hook: str, state: CycleState, pod: PendingPod) -> None:
    """Expect the answers of a state that is made from the current tables."""
    fresh = CycleState()
    whole = questions.asked_whole(fresh, pod, questions.nodes)
    if not isinstance(whole, Status):
        expected = _filtered(questions, fresh, pod)
        _expect(questions, hook, pod, _filtered(questions, state, pod), expected)


def _filtered(questions: Questions, state: CycleState, pod: PendingPod) -> Answers:
    if questions.filter is None:
        return Answers(None)
    rows = questions.nodes.order.tolist()
    return Answers(None, {row: questions.asked_filter(state, pod, row) for row in rows})


def _expect(questions: Questions, done: str, pod: PendingPod, said: Answers, expected: Answers) -> None:
    remedy = "let add_pod and remove_pod change in `state` just what the other pod makes of it, each the reverse"
    questions.same(f"{done}, then filter", pod, said, expected, remedy)
