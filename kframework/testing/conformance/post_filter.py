"""PostFilter: the way out of a cycle in which no node is feasible, beside what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterator, Set

from kframework.core.cycle.outcome import FitError
from kframework.core.runtime.points import PostFilterAnswer, PostFilterRound
from kframework.core.runtime.steps import Step
from kframework.framework.answers import ClearNomination, Diagnosis, Nominate, Preempt
from kframework.framework.status import Code, Status
from kframework.testing.conformance.facts import Fact, Uncompared, beside, not_built
from kframework.testing.conformance.recorded import Candidate, PostFilter, Verdict
from kframework.testing.conformance.whole_cycle import WholeCycle

_CLAIMS, _PREEMPTION = "DynamicResources", "DefaultPreemption"


def compare(recorded: PostFilter, cycle: WholeCycle, built: Set[str]) -> Iterator[Fact | Uncompared]:
    """Compare each of the default set's two plugins by itself, and the whole step if both exist."""
    if not isinstance(cycle.outcome, FitError):
        yield Fact(("postFilter",), recorded, None)
        return
    diagnosis = cycle.outcome.diagnosis
    steps = {step.name: step for step in cycle.profile.post_filter}
    if _CLAIMS in steps:
        yield from _compare_claims(recorded, _alone(steps[_CLAIMS], cycle, diagnosis).status)
    if _PREEMPTION in steps:
        yield from _compare_preemption(recorded, _alone(steps[_PREEMPTION], cycle, diagnosis))
    missing = [name for name in (_CLAIMS, _PREEMPTION) if name not in built]
    if missing:
        yield from (not_built("postFilter", name) for name in missing)
    else:
        answer = PostFilterRound(cycle.profile).run(cycle.search.state, cycle.search.pod, diagnosis)
        yield from _compare_whole(recorded, answer.status, cycle)


def _alone(step: Step, cycle: WholeCycle, diagnosis: Diagnosis) -> PostFilterAnswer:
    """Ask one plugin by itself."""
    try:
        answer = step.call(cycle.search.state, cycle.search.pod, diagnosis)
    except Exception as error:
        return PostFilterAnswer(cycle.profile.faulty(step.name, "post_filter", error))
    if isinstance(answer, Preempt | Nominate | ClearNomination):
        return PostFilterAnswer(answer.status, answer)
    return PostFilterAnswer(answer if isinstance(answer, Status) else Status(Code.UNSCHEDULABLE))


def _compare_claims(recorded: PostFilter, status: Status) -> Iterator[Fact]:
    """Compare the part that stands before DefaultPreemption's, or in place of it; a success hides it."""
    if recorded.code == "Unschedulable":
        before, preemption, _ = recorded.message.partition(", preemption: ")
        yield Fact(("postFilter", _CLAIMS), before if preemption else recorded.message, status.message)
    elif recorded.code == "Error" and (recorded.preemption is None or recorded.preemption.code != "Error"):
        yield Fact(("postFilter", _CLAIMS), recorded.message, status.message)


def _compare_preemption(recorded: PostFilter, answer: PostFilterAnswer) -> Iterator[Fact]:
    yield Fact(("postFilter", "preemption"), recorded.preemption, Verdict.of(answer.status))
    if not isinstance(answer.result, Preempt):
        yield Fact(("postFilter", "nominatedNode"), recorded.nominated_node, "")
        return
    got = {
        candidate.node: Candidate(
            victims=tuple(victim.key for victim in candidate.victims), pdb_violations=candidate.pdb_violations
        )
        for candidate in answer.result.candidates
    }
    yield from beside(recorded.candidates, got, "postFilter", "candidates")
    chosen = min(answer.result.candidates, key=answer.result.key)  # type: ignore[arg-type]  # keys compare
    if chosen.node not in recorded.nominated_any_of:
        yield Fact(("postFilter", "nominatedNode"), recorded.nominated_node, chosen.node)
    victims = got[recorded.nominated_node].victims if recorded.nominated_node in got else ()
    yield Fact(("postFilter", "victims"), recorded.victims, victims)


def _compare_whole(recorded: PostFilter, status: Status, cycle: WholeCycle) -> Iterator[Fact]:
    message = "" if status.code == Code.SUCCESS else status.message
    yield Fact(("postFilter", "code"), recorded.code, status.code.title)
    yield Fact(("postFilter", "message"), recorded.message, message)
    after = cycle.fit_error_after(message)
    yield Fact(("postFilter", "fitErrorAfterPostFilter"), recorded.fit_error_after_post_filter, after)
