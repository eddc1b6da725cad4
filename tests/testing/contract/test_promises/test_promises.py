"""Plugins that keep the contract pass, whatever their shape; a failure names the broken rule, the pod and the node."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Hashable
from random import Random

import numpy as np
import pytest

from kframework import (
    ConfigError,
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Skip,
    Status,
    error,
    hookimpl,
    min_max_normalize,
    unschedulable,
)
from kframework.framework.cycle_state import StateKey
from kframework.objects import Namespace, ObjectMeta
from kframework.testing import ContractViolation, check_plugin, make_node, make_pod
from kframework.values.scores import Rows, Scores

# The faulty plugins are written as briefly as a newcomer would, and some take a hook away.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return, assignment"


class Slots(Plugin):
    """Offers as many places as the node's annotation says, to pods that ask for one; likes nodes with places left.

    Everything that a plugin can have: both forms, a signature, prepared state, scores that are normalised.
    """

    name = "Slots"
    reads = "pods"

    KEY = StateKey[bool]("Slots")
    reason = "node(s) had no place left"

    def wants(self, pod):
        return "app" in pod.labels

    def left(self, node):
        return 3 - len(node.pods)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        return self.wants(pod)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        state[self.KEY] = self.wants(pod)
        return None if self.wants(pod) else Skip

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable(self.reason) if state[self.KEY] and self.left(node) <= 0 else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return (nodes.requested("pods")[rows] >= 3).astype(np.int64) * state[self.KEY]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unschedulable(self.reason)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return self.left(node)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        return 3 - nodes.requested("pods")[rows]

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        return min_max_normalize(scores)


class Disks(Plugin):
    """The other shapes: no signature but `reads`, the columnar form alone, Args, one score for all."""

    class Args(PluginArgs):
        """Which disk is wanted."""

        wanted_disk: str = "ssd"

    name = "Disks"
    reads = "node"

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        disks = nodes.label("disk")
        code = disks.find_code(self.args.wanted_disk)  # type: ignore[attr-defined]  # our Args
        return (disks.values[rows] != code).astype(np.int64) * 8

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unschedulable(f"wrong disk, code {bits}")

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        return 7


class Unsigned(Slots):
    """Slots without a promise; it may draw."""

    reads = None

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        self.handle.random.random()
        return None


class Narrows(Plugin):
    """Wants nodes by name."""

    name = "Narrows"
    reads = "node"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> set[str] | Status | None:
        if "tier" in pod.labels:
            return unschedulable("no tier, please")
        return {"node-1", "node-2", "given"} if "app" in pod.labels else None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None


class InTurn(Slots):
    """Relies on the order in which the hooks are asked, and on what has come through the ones before."""

    name = "InTurn"
    reads = None

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        return None

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        if "tier" in pod.labels:
            return unschedulable("no tier, please")
        return super().pre_filter(state, pod, nodes)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        full = state[self.KEY] & (nodes.requested("pods")[rows] >= 3)
        assert not full.any(), "a full node is to be scored"
        return None


def test_coverage_counts_reasons_codes_and_scores() -> None:
    reached = check_plugin(Slots)
    assert reached.reasons == {Slots.reason: reached.reasons[Slots.reason]}
    assert reached.reasons[Slots.reason] > 100
    assert reached.passes > 100
    assert min(reached.scores) < 0 < max(reached.scores) == 3
    assert reached.skips["pre_filter"] > 10
    assert reached.skips["pre_score"] == 0


@pytest.mark.parametrize("plugin", [Unsigned, Narrows, Disks, InTurn])
def test_sound_plugins_of_every_shape_pass(plugin: type[Plugin]) -> None:
    check_plugin(plugin, examples=4)


def test_args_are_spelled_as_in_the_file() -> None:
    reached = check_plugin(Disks, args={"wantedDisk": "floppy"}, examples=2)
    assert reached.reasons.keys() == {"wrong disk, code 8"}
    assert reached.passes == 0


def test_unloadable_plugin_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="wantedDisks"):
        check_plugin(Disks, args={"wantedDisks": "floppy"})


def test_given_nodes_and_pods_are_evaluated() -> None:
    nodes = [make_node("given", labels={"disk": "tape"})]
    pods = [make_pod("given", labels={"tier": "mine"})]
    assert check_plugin(Disks, args={"wantedDisk": "tape"}, nodes=nodes, examples=2).passes
    met: list[tuple[str, str]] = []

    class Notes(Narrows):
        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            met.append((pod.name, node.name))
            return None

        @hookimpl
        def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> None:
            pass

    check_plugin(Notes, nodes=nodes, pods=pods, examples=1)
    assert {("given", "given"), ("given-twin", "given")} <= set(met)


def test_given_objects_are_created_and_deleted() -> None:
    class Quota(Plugin):
        name = "Quota"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            quota = self.handle.objects(Namespace).get("default")
            return unschedulable(quota.metadata.labels["quota"]) if quota is not None else None

    versions = [Namespace(metadata=ObjectMeta(name="default", labels={"quota": text})) for text in ("used", "full")]
    coverage = check_plugin(Quota, objects=versions, examples=4)
    assert coverage.reasons.keys() == {"used", "full"} and coverage.passes


def test_pods_of_one_name_have_separate_answers() -> None:
    check_plugin(Slots, pods=[make_pod("one", labels={"app": "web"}), make_pod("one")], examples=2)


def test_same_seed_makes_the_same_calls() -> None:
    def reached(seed: int) -> object:
        counts = check_plugin(Slots, examples=2, seed=seed)
        return counts.reasons, counts.scores, counts.passes

    assert reached(3) == reached(3) != reached(4)


def test_hypothesis_is_not_needed() -> None:
    program = "import sys; sys.modules['hypothesis'] = None; import kframework.testing"
    subprocess.run([sys.executable, "-c", program], check=True)


class WrongTwin(Slots):
    @hookimpl
    def filter_nodes(self, state, pod, nodes, rows):
        return (nodes.requested("pods")[rows] > 3).astype(np.int64) * state[self.KEY]


class TwinByPlace(Slots):
    """Right for all rows in order, wrong for a choice of them."""

    @hookimpl
    def score_nodes(self, state, pod, nodes, rows):
        return (3 - nodes.requested("pods")[nodes.order])[: len(nodes.requested("pods")[rows])]


class ShortTwin(Slots):
    @hookimpl
    def score_nodes(self, state, pod, nodes, rows):
        return (3 - nodes.requested("pods"))[rows][:-1]


class FloatTwin(Slots):
    @hookimpl
    def filter_nodes(self, state, pod, nodes, rows):
        return np.zeros(len(nodes.requested("pods")[rows]))


class ManyBits(Slots):
    @hookimpl
    def filter_nodes(self, state, pod, nodes, rows):
        return (nodes.requested("pods")[rows] >= 3).astype(np.int64) << 32


class ForgetsAddedPods(Slots):
    @hookimpl
    def filter_more(self, state, pod, nodes, rows, added):
        return self.filter_nodes(state, pod, nodes, rows)


class WrongWords(Slots):
    @hookimpl
    def filter_status(self, pod, bits):
        return unschedulable("full")


class WrongCode(Slots):
    @hookimpl
    def filter_status(self, pod, bits):
        return error(self.reason)


class CoarseSignature(Slots):
    @hookimpl
    def sign(self, pod):
        return "pod"


class SignedByName(Slots):
    @hookimpl
    def sign(self, pod):
        return pod.name


class SignedByTime(Slots):
    @hookimpl
    def sign(self, pod):
        return pod.start_time


class SignedAnew(Slots):
    @hookimpl
    def sign(self, pod):
        return object()


class Unhashable(Slots):
    @hookimpl
    def sign(self, pod):
        return [self.wants(pod)]


class ReadsTooMuch(Slots):
    """Says that it reads the Node object, and reads the node's pods."""

    reads = "node"


class CountsNodes(Slots):
    """Prepares what depends on the nodes it is given."""

    @hookimpl
    def pre_filter(self, state, pod, nodes):
        state[self.KEY] = self.wants(pod) and len(nodes) > 3


class NamesNodes(Narrows):
    @hookimpl
    def pre_filter(self, state, pod, nodes):
        return {node.name for node in nodes}


class RanksCandidates(Slots):
    """Prepares what depends on the candidates it is given."""

    BEST = StateKey[int]("RanksCandidates")

    @hookimpl
    def pre_score(self, state, pod, nodes, rows):
        state[self.BEST] = int(nodes.requested("pods")[rows].min())

    @hookimpl
    def score(self, state, pod, node):
        return len(node.pods) - state[self.BEST]

    @hookimpl
    def score_nodes(self, state, pod, nodes, rows):
        return nodes.requested("pods")[rows] - state[self.BEST]


class Draws(Slots):
    """Draws, though its answers do not depend on it."""

    @hookimpl
    def score(self, state, pod, node):
        self.handle.random.random()
        return self.left(node)


class TouchesPod(Slots):
    @hookimpl
    def filter(self, state, pod, node):
        pod.labels["seen"] = node.name
        return Slots.filter(self, state, pod, node)


class TouchesPriority(Slots):
    @hookimpl
    def pre_filter(self, state, pod, nodes):
        pod.priority += 1
        return Slots.pre_filter(self, state, pod, nodes)


class TouchesNode(Slots):
    @hookimpl
    def score(self, state, pod, node):
        node.labels["seen"] = "yes"
        return Slots.score(self, state, pod, node)


class TouchesTable(Slots):
    @hookimpl
    def score_nodes(self, state, pod, nodes, rows):
        pods = nodes.requested("cpu")
        pods += 1
        return Slots.score_nodes(self, state, pod, nodes, rows)


class LeavesStatement(Slots):
    @hookimpl
    def pre_filter(self, state, pod, nodes):
        self.handle.statement()
        return Slots.pre_filter(self, state, pod, nodes)


class ScoresTooHigh(Slots):
    @hookimpl
    def normalize_score(self, state, pod, scores):
        return np.abs(scores) * 100


class ScoresNotAtAll(Slots):
    normalize_score = filter = filter_nodes = filter_status = None

    def left(self, node):
        return 97 + len(node.pods)

    score_nodes = None


class ScoresFloats(Slots):
    def left(self, node):
        return 3.0 - len(node.pods)


class NormalisesInPlace(Slots):
    @hookimpl
    def normalize_score(self, state, pod, scores):
        scores -= scores.min()
        scores[:] = np.minimum(scores, 100)
        return scores


class Raises(Slots):
    def left(self, node):
        return 1 // (len(node.pods) - 2)


class KeepsNodeInfo(Slots):
    """Keeps the first NodeInfo it meets, and reads it from then on."""

    kept = None

    def left(self, node):
        self.kept = self.kept or node
        return 3 - len(node.pods) + 0 * self.kept.row

    filter_nodes = filter_status = score_nodes = None


class AnswersYes(Slots):
    @hookimpl
    def filter(self, state, pod, node):
        return True


class Waits(Slots):
    @hookimpl
    def pre_score(self, state, pod, nodes, rows):
        return unschedulable("later")


class FailsSoftly(Slots):
    @hookimpl
    def pre_filter(self, state, pod, nodes):
        return error("no idea")


@pytest.mark.parametrize(
    ("plugin", "call", "result", "remedy"),
    [
        (
            WrongTwin,
            "filter_nodes of pod .*, node node-",
            "answers None for .*, filter answers .* for the node",
            "agree",
        ),
        (TwinByPlace, "score_nodes of pod .*, node node-", "answers .* for .*, score answers .* for the node", "agree"),
        (ShortTwin, "score_nodes of pod", "not one integer for each of", "integer array as long as"),
        (FloatTwin, "filter_nodes of pod", "not one integer for each of", "integer array as long as"),
        (ManyBits, "filter_nodes of pod", "answers 4294967296, which is more than 32 bits", "lowest 32 bits"),
        (
            ForgetsAddedPods,
            "filter_more of pod .*, node node-",
            "answers None with 1 more pod, filter answers .*no place left.* once it is there",
            "as those on the node",
        ),
        (WrongWords, "filter_nodes of pod .*, node node-", "answers .*full.*, filter answers .*no place left", "agree"),
        (WrongCode, "filter_status of pod", "which is no rejection", "a rejection"),
        (CoarseSignature, "sign, which equals that of pod .*, and then all hooks of pod", ", not ", "`sign` include"),
        (SignedByName, "sign of pod", "depends on the pod's own names or times", "leave them out"),
        (SignedByTime, "sign of pod", "depends on the pod's own names or times", "leave them out"),
        (SignedAnew, "sign of pod", "answers <object .*>, then <object", "values that are equal"),
        (Unhashable, "sign of pod", "hook sign: TypeError: unhashable", "a hook answers"),
        (ReadsTooMuch, "cache of pod", "cached .*, now ", "declare what answers depend on"),
        (CountsNodes, "with other nodes, pre_filter or pre_score of pod .*, node", ", not ", "nodes that it gets"),
        (NamesNodes, "with other nodes, pre_filter or pre_score of pod", ", not ", "nodes that it gets"),
        (RanksCandidates, "with other nodes, pre_filter or pre_score of pod .*, node", ", not ", "nodes that it gets"),
        (Draws, "sign of pod", "a hook uses handle.random", "do not use it"),
        (
            TouchesPod,
            "filter of pod",
            r"ReadOnlyError: pod .* is read-only, and written to in .*test_promises\.py:",
            "",
        ),
        (TouchesPriority, "all hooks", "a hook changes pod", "store what changes in `state`"),
        (TouchesNode, "score of pod", r"ReadOnlyError: node .*: metadata\.labels is read-only, and written to in", ""),
        (TouchesTable, "score_nodes of pod", "raises .*: output array is read-only", ""),
        (LeavesStatement, "all hooks", "a hook leaves a statement open", "close it"),
        (ScoresTooHigh, "normalize_score of pod .*, node node-", "does not lie in 0..100", "default_normalize"),
        (ScoresNotAtAll, "score of pod .*, node node-", "does not lie in 0..100", "default_normalize"),
        (ScoresFloats, "score of pod", "answers .* of float, which is no int", "round"),
        (NormalisesInPlace, "normalize_score of pod", "changes the scores that it gets", "return new ones"),
        (Raises, "of pod", "raises ZeroDivisionError: integer division or modulo by zero", "does not raise"),
        (KeepsNodeInfo, "of pod", "raises StaleNodeError: node 'node-.*' was removed", ""),
        (AnswersYes, "filter of pod", "answers True, which is no rejection", "a rejection"),
        (Waits, "pre_score of pod", "which is not Skip", "None or Skip"),
        (FailsSoftly, "pre_filter of pod", "which is no rejection", "a rejection"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_contract_is_reported(plugin: type[Plugin], call: str, result: str, remedy: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_plugin(plugin, examples=6)
    violation = caught.value
    assert re.search(call, violation.call), violation
    assert re.search(result, violation.result), violation
    assert remedy in violation.remedy, violation
    assert violation.plugin == plugin.name
    assert "of seed 0, " in violation.when


def test_exception_of_a_hook_is_the_cause() -> None:
    with pytest.raises(ContractViolation) as caught:
        check_plugin(Raises, examples=2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("seed", Random(0).sample(range(1000), 3))
def test_sound_plugin_passes_with_any_seed(seed: int) -> None:
    check_plugin(Slots, examples=2, seed=seed)
