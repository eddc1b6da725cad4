"""Old versions come along: each translation equals what it says to write in v1; what has no equal is refused."""

from __future__ import annotations

import pytest
import yaml

from kframework.config import migration
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.config.show import effective_yaml
from kframework.core.runtime.registry import built_in_args
from kframework.errors import ConfigError

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WEIGHTS = "{name: TaintToleration, weight: 1}, {name: NodeAffinity, weight: 1}, {name: InterPodAffinity, weight: 1}"
MOST, RATIO = "NodeResourcesMostAllocated", "RequestedToCapacityRatio"


def written(configuration: Configuration) -> str:
    return effective_yaml(configuration, built_in_args(configuration))


def old(version: str, profile: str) -> str:
    return V1.replace("/v1\n", f"/{version}\n") + f"profiles:\n- {profile}\n"


@pytest.fixture
def _not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "entry_points", lambda **_: ())


def plugins(**keys: str) -> str:
    """Write the `plugins` of a profile; the old weights are those of v1beta3."""
    return f"{{plugins: {{{', '.join(f'{key}: {value}' for key, value in keys.items())}}}}}"


TRANSLATED = {
    "most allocated": (
        plugins(
            score="{disabled: [{name: NodeResourcesLeastAllocated}],"
            " enabled: [{name: NodeResourcesMostAllocated, weight: 5}]}"
        ),
        (
            "{plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 5}]}},"
            " pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}"
        ),
    ),
    "most allocated, all defaults off": (
        plugins(score="{disabled: [{name: '*'}], enabled: [{name: NodeResourcesMostAllocated}]}"),
        (
            "{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}},"
            " pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}"
        ),
    ),
    "most allocated by multiPoint": (
        plugins(multiPoint="{enabled: [{name: NodeResourcesMostAllocated, weight: 3}]}"),
        (
            "{plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 3}]}},"
            " pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}"
        ),
    ),
    "resources, beside other args": (
        (
            "{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesMostAllocated}]}},"
            " pluginConfig: [{name: NodeResourcesMostAllocated,"
            " args: {kind: NodeResourcesMostAllocatedArgs, resources: [{name: gpu}]}},"
            " {name: Mine, args: {a: 1}}, {name: NodeResourcesFit, args: {ignoredResources: [foo]}}]}"
        ),
        (
            "{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}},"
            " pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [foo],"
            " scoringStrategy: {type: MostAllocated, resources: [{name: gpu}]}}}, {name: Mine, args: {a: 1}}]}"
        ),
    ),
    "a ratio": (
        (
            "{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: RequestedToCapacityRatio, weight: 2}]}},"
            " pluginConfig: [{name: RequestedToCapacityRatio, args:"
            " {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}],"
            " resources: [{name: cpu, weight: 3}]}}]}"
        ),
        (
            "{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 2}]}},"
            " pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio,"
            " resources: [{name: cpu, weight: 3}], requestedToCapacityRatio:"
            " {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}}]}"
        ),
    ),
    "least allocated off": (
        plugins(score="{disabled: [{name: NodeResourcesLeastAllocated}]}"),
        plugins(score="{disabled: [{name: NodeResourcesFit}]}"),
    ),
    "volume limits, there by default": (
        plugins(filter="{enabled: [{name: CinderLimits}], disabled: [{name: EBSLimits}]}"),
        "{}",
    ),
    "volume limits alone": (
        plugins(filter="{enabled: [{name: EBSLimits}, {name: GCEPDLimits}], disabled: [{name: '*'}]}"),
        plugins(filter="{enabled: [{name: NodeVolumeLimits}], disabled: [{name: '*'}]}"),
    ),
    "labels": (
        (
            "{plugins: {filter: {enabled: [{name: NodeLabel}]}},"
            " pluginConfig: [{name: NodeLabel, args: {presentLabels: [zone], absentLabels: [slow, old]}}]}"
        ),
        (
            "{pluginConfig: [{name: NodeAffinity, args: {addedAffinity:"
            " {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions:"
            " [{key: zone, operator: Exists}, {key: slow, operator: DoesNotExist},"
            " {key: old, operator: DoesNotExist}]}]}}}}]}"
        ),
    ),
    "nodes to avoid, off": (plugins(score="{disabled: [{name: NodePreferAvoidPods}]}"), "{}"),
    "args without effect": ("{pluginConfig: [{name: ServiceAffinity, args: {affinityLabels: [a]}}]}", "{}"),
    "SelectorSpread under its first name": (
        plugins(score="{enabled: [{name: DefaultPodTopologySpread, weight: 2}]}"),
        plugins(score="{enabled: [{name: SelectorSpread, weight: 2}]}"),
    ),
    "SelectorSpread": (
        plugins(score="{enabled: [{name: SelectorSpread, weight: 2}]}"),
        plugins(score="{enabled: [{name: SelectorSpread, weight: 2}]}"),
    ),
}


@pytest.mark.parametrize("case", TRANSLATED)
def test_a_profile_is_translated(case: str) -> None:
    before, after = TRANSLATED[case]
    assert parse(old("v1beta3", before)) == parse(f"{V1}profiles:\n- {after}\n")


@pytest.mark.parametrize("case", TRANSLATED)
def test_the_effective_configuration_is_the_migrated_one(case: str) -> None:
    shown = written(parse(old("v1beta3", TRANSLATED[case][0])))
    assert yaml.safe_load(shown)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert shown == written(parse(f"{V1}profiles:\n- {TRANSLATED[case][1]}\n"))
    reloaded = parse(shown)
    assert (written(reloaded), reloaded.warnings) == (shown, ())


@pytest.mark.usefixtures("_not_installed")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (plugins(score="{enabled: [{name: SelectorSpread, weight: 9}]}"), "{}"),
        (
            plugins(score="{enabled: [{name: SelectorSpread, weight: 9}], disabled: [{name: '*'}]}"),
            plugins(score="{enabled: [{name: PodTopologySpread, weight: 9}], disabled: [{name: '*'}]}"),
        ),
        (plugins(preScore="{disabled: [{name: DefaultPodTopologySpread}]}"), "{}"),
    ],
)
def test_default_constraints_spread_where_selector_spread_is_not_installed(before: str, after: str) -> None:
    assert parse(old("v1beta3", before)) == parse(f"{V1}profiles:\n- {after}\n")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_default_weights_are_kept(version: str) -> None:
    score = f"score: {{enabled: [{WEIGHTS}]}}"
    configuration = parse(old(version, "{}"), "c.yaml")
    assert configuration == parse(f"{V1}profiles:\n- plugins: {{{score}}}\n")
    assert configuration.warnings[1:] == (
        (
            f"c.yaml:4: profiles[0]: default weights of kubescheduler.config.k8s.io/{version} are kept;"
            f" write: plugins: {{{score}}}"
        ),
    )
    assert parse(V1.replace("/v1\n", f"/{version}\n")) == configuration
    own = "{plugins: {score: {enabled: [{name: NodeAffinity, weight: 7}], disabled: [{name: '*'}]}}}"
    assert parse(old(version, own)) == parse(f"{V1}profiles:\n- {own}\n")


def test_the_first_version_took_constraints_for_a_list() -> None:
    constraints = "defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"
    before = f"{{pluginConfig: [{{name: PodTopologySpread, args: {{{constraints}}}}}]}}"
    after = f"pluginConfig: [{{name: PodTopologySpread, args: {{{constraints}, defaultingType: List}}}}]"
    plugins_ = f"plugins: {{score: {{enabled: [{WEIGHTS}]}}}}"
    assert parse(old("v1beta1", before)) == parse(f"{V1}profiles:\n- {{{after}, {plugins_}}}\n")
    with pytest.raises(ConfigError, match=r"when \.defaultConstraints are not empty"):
        written(parse(old("v1beta2", before)))


FULL = """\
plugins:
    filter:
      enabled: [{name: CinderLimits}]
    score:
      disabled:
      - name: NodeResourcesLeastAllocated
      - name: NodePreferAvoidPods
      enabled:
      - name: NodeResourcesMostAllocated
        weight: 5
  pluginConfig:
  - name: NodeResourcesMostAllocated
    args: {resources: [{name: cpu, weight: 1}]}
  - name: NodeLabel
"""


def test_each_change_is_told_with_its_line_and_the_form_of_v1() -> None:
    assert parse(old("v1beta3", FULL), "c.yaml").warnings[1:] == (
        (
            "c.yaml:6: profiles[0].plugins.filter.enabled[0]: CinderLimits is NodeVolumeLimits in v1,"
            " which is there already: leave it out"
        ),
        (
            "c.yaml:12: profiles[0].plugins.score.enabled[0]: NodeResourcesMostAllocated is NodeResourcesFit with"
            " scoringStrategy type MostAllocated in v1; write: {name: NodeResourcesFit, weight: 5}"
        ),
        "c.yaml:9: profiles[0].plugins.score.disabled[0]: NodeResourcesLeastAllocated is not in v1: leave it out",
        "c.yaml:10: profiles[0].plugins.score.disabled[1]: NodePreferAvoidPods is not in v1: leave it out",
        (
            "c.yaml:15: profiles[0].pluginConfig[0]: NodeResourcesMostAllocated is NodeResourcesFit with"
            " scoringStrategy type MostAllocated in v1; write: pluginConfig: [{name: NodeResourcesFit,"
            " args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]"
        ),
        "c.yaml:17: profiles[0].pluginConfig[1]: args of NodeLabel have no effect: leave them out",
    )


@pytest.mark.usefixtures("_not_installed")
def test_who_misses_selector_spread_is_told_where_it_is() -> None:
    text = old("v1beta3", plugins(score="{enabled: [{name: SelectorSpread}], disabled: [{name: '*'}]}"))
    assert parse(text, "c.yaml").warnings[1:] == (
        (
            "c.yaml:4: profiles[0].plugins.score.enabled[0]: SelectorSpread is PodTopologySpread (as it was,"
            " kframework-selector-spread has it) in v1; write: {name: PodTopologySpread}"
        ),
    )


@pytest.mark.parametrize(
    ("profile", "messages"),
    [
        (
            plugins(score="{enabled: [{name: NodePreferAvoidPods}, {name: ServiceAffinity}]}"),
            [
                (
                    "plugins.score.enabled[0]: NodePreferAvoidPods is not in v1:"
                    " taint the nodes with effect PreferNoSchedule"
                ),
                (
                    "plugins.score.enabled[1]: ServiceAffinity is not in v1:"
                    " give the pods a podAffinity with its labels as topologyKey"
                ),
            ],
        ),
        (
            plugins(score="{enabled: [{name: NodeResourcesMostAllocated}]}"),
            [
                (
                    "plugins.score: NodeResourcesMostAllocated and NodeResourcesLeastAllocated both score"
                    " (NodeResourcesLeastAllocated by default), and NodeResourcesFit has one scoringStrategy:"
                    " disable one of them"
                )
            ],
        ),
        (
            plugins(score=f"{{enabled: [{{name: {MOST}}}, {{name: {RATIO}}}], disabled: [{{name: '*'}}]}}"),
            [
                (
                    "plugins.score: NodeResourcesMostAllocated and RequestedToCapacityRatio both score,"
                    " and NodeResourcesFit has one scoringStrategy: disable one of them"
                ),
                (
                    "pluginConfig: args of NodeResourcesFit say scoringStrategy already: leave these out"
                ),
            ],
        ),
        (
            ("{plugins: {filter: {enabled: [{name: NodeLabel}]}},"
            " pluginConfig: [{name: A}, {name: NodeLabel, args: {presentLabelsPreference: [a]}}]}"),
            [
                (
                    "pluginConfig[1]: NodeLabel is not in v1:"
                    " preferences for labels are for the pods to have: a preferred nodeAffinity"
                )
            ],
        ),
        (
            (f"{{plugins: {{score: {{enabled: [{{name: {RATIO}}}], disabled: [{{name: '*'}}]}}}},"
            f" pluginConfig: [{{name: {RATIO}, args: {{kind: OtherArgs}}}}]}}"),
            [
                (
                    "pluginConfig[0].args.kind: args for plugin RequestedToCapacityRatio were not of type"
                    " RequestedToCapacityRatioArgs.kubescheduler.config.k8s.io,"
                    " got OtherArgs.kubescheduler.config.k8s.io"
                )
            ],
        ),
    ],
)  # fmt: skip
def test_what_has_no_equal_is_refused(profile: str, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(old("v1beta1", profile), "c.yaml")
    assert str(caught.value).splitlines() == [f"c.yaml:4: profiles[0].{message}" for message in messages]


def test_two_entries_for_one_plugin_are_refused_in_any_version() -> None:
    with pytest.raises(ConfigError, match=r'c\.yaml:4: profiles\[0\]\.pluginConfig\[1\]: Duplicate value: "A"'):
        parse(old("v1beta3", "{pluginConfig: [{name: A}, {name: A}]}"), "c.yaml")


def test_a_field_of_old_args_that_is_none_is_refused_on_its_line() -> None:
    profile = """\
plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [a]}
  - name: InterPodAffinity
    args:
      hardPodAffinityWeight: 101
  - name: NodeResourcesMostAllocated
    args:
      resource: []
"""
    with pytest.raises(ConfigError) as caught:
        written(parse(old("v1beta3", profile), "c.yaml"))
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == ["c.yaml:7", "c.yaml:10"]
    assert 'unknown field "resource"' in str(caught.value)
