"""An explanation tells the same as the decision it follows, and a run that is explained decides as one that is not.

On random clusters under the default profile, in which pods and nodes come, change and go.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from kframework.core.cycle.records import Decision, Result
from kframework.explain.explainer import explain, explain_steps
from kframework.explain.explanation import Explanation, State
from kframework.objects import ApiObject, Pod
from kframework.state.inbox import Deleted, Message, Upserted
from kframework.testing.clusters import random_node, random_pod
from tests.explain.scene import Scene
from tests.support.scale import seeds

#: So many nodes, pods and steps there are, and so many pods are explained after each step.
NODES, PODS, STEPS, EXPLAINED = 6, 20, 30, 3

#: What of a decision is measured, or is another in every run.
MEASURED = ("started", "timings", "plugins")


class Happening:
    """What happens in one run: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._pods = [random_pod(self._random, f"pod-{n}") for n in range(PODS)]
        self.objects: list[ApiObject] = [random_node(self._random, f"node-{n}") for n in range(NODES)]
        self.objects += [self._important(pod) for pod in self._pods]

    def _important(self, pod: Pod) -> Pod:
        priority = self._random.choice([None, 10, 1000])
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=priority))

    def next(self) -> list[Message]:
        """Return what happens before the next step."""
        match self._random.randrange(6):
            case 0:
                return [Upserted(random_node(self._random, f"node-{self._random.randrange(NODES + 2)}"))]
            case 1:
                return [Deleted(random_node(self._random, f"node-{self._random.randrange(NODES + 2)}"))]
            case 2:
                return [Deleted(self._random.choice(self._pods))]
        return []


def run(seed: int, *, explained: bool) -> list[Decision]:
    """Run, and maybe explain some pods after every step; return the decisions without what is measured."""
    happening = Happening(seed)
    scene, chance = Scene(*happening.objects), Random(seed)
    for _ in range(STEPS):
        before = len(scene.history.recent(scene.history.max_records))
        scene.engine.step()
        decisions = scene.history.recent(scene.history.max_records)
        if explained:
            if len(decisions) > before:
                compare(scene, decisions[0])
            pods = [*scene.engine.handlers.pending.values(), *scene.engine.cluster.pods.values()]
            for pod in chance.sample(pods, min(EXPLAINED, len(pods))):
                for _ in explain_steps(scene.engine, scene.history, pod):
                    assert not scene.engine.cluster.statements
        scene.time += 7.0
        for message in happening.next():
            scene.engine.offer(message)
    unmeasured = dict.fromkeys(MEASURED[1:], ())
    return [msgspec.structs.replace(each, started=0, **unmeasured) for each in decisions]


def compare(scene: Scene, decision: Decision) -> None:
    """Compare an explanation with the decision that was made right before it."""
    pod = scene.engine.cluster.pods.get(decision.uid) or scene.engine.handlers.pending[decision.uid]
    explanation = explain(scene.engine, scene.history, pod)
    assert explanation.last_decision == decision
    assert explanation.attempts == decision.pod_attempts
    if decision.result is Result.SCHEDULED:
        compare_choice(explanation, decision)
    else:
        assert decision.result is Result.UNSCHEDULABLE
        now = explanation.assessment
        assert (now.nodes, now.feasible, now.reasons) == (decision.nodes, 0, decision.reasons)
        assert decision.message.startswith(now.message)
        assert sum(each.first for each in now.rejections) >= sum(decision.reasons.values())
        assert explanation.waiting is not None
        if explanation.state is State.UNSCHEDULABLE:
            assert explanation.waiting.held_by == decision.rejectors


def compare_choice(explanation: Explanation, decision: Decision) -> None:
    now = explanation.assessment
    assert explanation.node == decision.node
    own = next(each for each in now.top if each.node == decision.node)
    if decision.best_nodes:
        assert (now.feasible, now.ties) == (decision.feasible, decision.ties)
        assert (own.rank, own.total) == (1, decision.score)
        assert sorted(total for _, total in decision.best_nodes) == sorted(each.total for each in now.top[:3])


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_explanation_equals_the_decision_and_changes_nothing(seed: int) -> None:
    decisions = run(seed, explained=True)
    assert decisions
    assert decisions == run(seed, explained=False)
