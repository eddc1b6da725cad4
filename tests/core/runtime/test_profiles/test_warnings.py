"""What loads and is odd all the same is said, with its place in the file; what is not odd is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kframework import Plugin
from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.state.cluster import ClusterState
from tests.extension_points.scripted import plugin

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins:\n"
PLUGINS = "k.yaml:{}: profiles[0].plugins."

RANKS = plugin("Ranks", pre_score=None, score=0)
CHECKS = plugin("Checks", pre_filter=None, filter=None, score=0)


def noticed(plugins: str, *classes: type[Plugin]) -> Sequence[str]:
    """Return what is said of these lines of `plugins`, each at its line: the first is line 5."""
    configuration = parse(HEAD + "".join(f"    {line}\n" for line in plugins.splitlines()), "k.yaml")
    profiles = profiles_factory(configuration, Registry.with_plugins(RANKS, CHECKS, *classes), Host())
    return PodEngine(ClusterState(), SystemClock(), Host(), profiles, verifying=False).profiles.warnings


@pytest.mark.parametrize(
    ("plugins", "notices"),
    [
        (
            "score: {enabled: [{name: Ranks}]}",
            [
                PLUGINS.format(5) + "score.enabled[0].name: plugin 'Ranks' runs at score without its preScore, which "
                "prepares for it; enable it at preScore too, or under multiPoint"
            ],
        ),
        (
            "filter:\n  enabled:\n  - name: Checks\nscore: {enabled: [{name: Checks}]}",
            [
                PLUGINS.format(7) + "filter.enabled[0].name: plugin 'Checks' runs at filter without its preFilter, "
                "which prepares for it; enable it at preFilter too, or under multiPoint"
            ],
        ),
        (
            "multiPoint: {enabled: [{name: Ranks}]}\npreScore: {disabled: [{name: Ranks}]}",
            [
                PLUGINS.format(6)
                + "preScore: plugin 'Ranks' runs at score without its preScore, which prepares for it;"
                " enable it at preScore too, or under multiPoint"
            ],
        ),
        (
            "multiPoint: {enabled: [{name: Ranks}]}\npreScore: &all {disabled: [{name: Ranks}]}\nscore: *all",
            [
                PLUGINS.format(5) + "multiPoint.enabled[0].name: plugin 'Ranks' runs nowhere: it is disabled at "
                "preScore, score"
            ],
        ),
        (
            "score: {disabled: [{name: NodeResourceFit}]}\nmultiPoint: {disabled: [{name: Xyzzy}]}",
            [
                PLUGINS.format(5) + "score.disabled[0].name: there is no plugin 'NodeResourceFit' to disable "
                "(did you mean 'NodeResourcesFit'?)",
                PLUGINS.format(6) + "multiPoint.disabled[0].name: there is no plugin 'Xyzzy' to disable",
            ],
        ),
    ],
)
def test_odd_configuration_gives_warnings(plugins: str, notices: list[str]) -> None:
    assert sorted(noticed(plugins)) == notices


@pytest.mark.parametrize(
    "plugins",
    [
        "multiPoint: {enabled: [{name: Ranks}, {name: Checks}]}",
        "preScore: {enabled: [{name: Ranks}]}\nscore: {enabled: [{name: Ranks}]}",
        "preScore: {enabled: [{name: Ranks}]}",
        "multiPoint: {enabled: [{name: Checks}]}\nfilter: {disabled: [{name: Checks}]}",
        "score: {enabled: [{name: Checks}]}",
        # The default plugins, rearranged as kube-scheduler's documentation does.
        "score: {enabled: [{name: NodeResourcesFit, weight: 5}], disabled: [{name: NodeResourcesFit}]}",
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}",
        "preScore: {disabled: [{name: '*'}]}\nscore: {disabled: [{name: '*'}]}",
        "multiPoint: {disabled: [{name: GangScheduling}]}",
        "score: {disabled: [{name: Ranks}]}",
    ],
)
def test_usual_configuration_gives_no_warning(plugins: str) -> None:
    assert noticed(plugins) == ()


def test_default_profile_gives_no_warning() -> None:
    assert noticed("{}") == ()
