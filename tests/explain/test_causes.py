"""Why two configurations choose different nodes: scores, rejections, the state that earlier pods left, or chance."""

from __future__ import annotations

import pytest

from kframework.config.load import default_configuration, parse
from kframework.explain.causes import DifferenceCause, Origin, ScoreChange, find_cause
from kframework.objects import ApiObject
from kframework.observe.recording.reconsider import Reconsiderer
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene

KIND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKED_ARGS = "{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}"
PACKED = f"{KIND}profiles: [{{pluginConfig: [{PACKED_ARGS}]}}]"
TOLERANT = f"{KIND}profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: TaintToleration}}]}}}}}}]"

LARGE, SMALL, TAINTED = make_node("large", cpu=16), make_node("small", cpu=4), make_node("t", taints=["k=v:NoSchedule"])
POD = make_pod("p", cpu=1)


def cause_of(
    *objects: ApiObject, baseline: str = "", new: str = "", nodes: tuple[str, str] = ("large", "small")
) -> DifferenceCause | None:
    """Find the cause for the pending pod of a scene."""
    scene = Scene(*objects, configuration=new)
    other = Reconsiderer(scene.engine, parse(baseline) if baseline else default_configuration())
    scene.engine.apply_messages()
    (pod,) = scene.engine.pending.values()
    cause = find_cause(other.catch_up(), scene.engine, pod, *nodes)
    assert not scene.engine.cluster.statements
    return cause


def found(
    *objects: ApiObject, baseline: str = "", new: str = "", nodes: tuple[str, str] = ("large", "small")
) -> DifferenceCause:
    cause = cause_of(*objects, baseline=baseline, new=new, nodes=nodes)
    assert cause is not None
    return cause


def test_plugin_whose_score_gained_most_decided() -> None:
    cause = found(LARGE, SMALL, POD, new=PACKED)
    assert (cause.origin, cause.plugin, cause.summary) == (
        Origin.CONFIGURATION,
        "NodeResourcesFit",
        "NodeResourcesFit: scores",
    )
    change = cause.scores[0]
    assert change.plugin == "NodeResourcesFit" and (change.baseline or 0) < 0 < (change.new or 0)
    assert cause.message == (
        f"NodeResourcesFit scores small {change.new} above large (baseline: {-(change.baseline or 0)} below)"
    )


def test_plugin_that_only_one_configuration_scores_with_has_no_lead_in_the_other() -> None:
    unbalanced = f"{KIND}profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: NodeResourcesFit}}]}}}}}}]"
    cause = found(LARGE, SMALL, POD, baseline=unbalanced, new=PACKED)
    fit = next(each for each in cause.scores if each.plugin == "NodeResourcesFit")
    assert fit.baseline is None and fit.gain == fit.new
    assert cause.message == f"NodeResourcesFit scores small {fit.new} above large (baseline: not scored)"
    back = found(LARGE, SMALL, POD, baseline=PACKED, new=unbalanced, nodes=("small", "large"))
    assert back.message == f"NodeResourcesFit no longer scores; in the baseline it scores large {fit.new} below small"


def test_plugin_that_rejects_the_node_decided() -> None:
    cause = found(TAINTED, SMALL, POD, baseline=TOLERANT, nodes=("t", "small"))
    assert (cause.origin, cause.plugin) == (Origin.CONFIGURATION, "TaintToleration")
    assert cause.message == "TaintToleration rejects t: node(s) had untolerated taint(s)"
    assert cause.summary == "TaintToleration: node(s) had untolerated taint(s)"
    assert found(TAINTED, POD, baseline=TOLERANT, nodes=("t", "")) == cause


def test_plugin_that_rejects_the_node_no_longer_decided() -> None:
    for nodes in (("small", "t"), ("", "t")):
        cause = found(TAINTED, SMALL, POD, new=TOLERANT, nodes=nodes)
        assert cause.message == "in the baseline TaintToleration rejects t: node(s) had untolerated taint(s)"
        assert cause.summary == "TaintToleration: no longer rejects: node(s) had untolerated taint(s)"


def test_node_that_is_full_under_both_is_due_to_earlier_pods() -> None:
    full = make_pod("other", cpu=16, node_name="large")
    cause = found(LARGE, SMALL, full, POD, new=PACKED)
    assert cause.origin is Origin.EARLIER_PODS
    assert cause.message == "NodeResourcesFit rejects large: Insufficient cpu, as earlier pods went elsewhere"
    assert cause.summary == "earlier pods went elsewhere"
    assert found(LARGE, SMALL, POD, new=PACKED, nodes=("", "small")).message == (
        "small has room, as earlier pods went elsewhere"
    )


def test_node_that_both_prefer_is_due_to_earlier_pods() -> None:
    cause = found(LARGE, SMALL, POD, nodes=("small", "large"))
    assert cause.origin is Origin.EARLIER_PODS
    assert cause.message.endswith("above small in both configurations, as earlier pods went elsewhere")


def test_equally_good_nodes_are_due_to_chance() -> None:
    cause = found(make_node("a"), make_node("b"), POD, nodes=("a", "b"))
    assert (cause.origin, cause.message) == (Origin.CHANCE, "a and b are equally good: one was drawn")


def test_node_that_is_worse_was_chosen_from_a_part_of_the_nodes() -> None:
    cause = found(LARGE, SMALL, POD)
    assert (cause.origin, cause.message) == (Origin.SAMPLE, "large was not among the nodes that were examined")


@pytest.mark.parametrize(
    ("baseline", "nodes"), [(f"{KIND}profiles: [{{schedulerName: other}}]", ("large", "small")), ("", ("large", ""))]
)
def test_cause_that_no_plugin_names_is_unknown(baseline: str, nodes: tuple[str, str]) -> None:
    assert cause_of(LARGE, SMALL, POD, baseline=baseline, nodes=nodes) is None


def test_gain_counts_a_plugin_that_does_not_score_as_nothing() -> None:
    assert (ScoreChange("A", None, 3).gain, ScoreChange("A", 3, None).gain) == (3, -3)
