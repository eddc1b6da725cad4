"""The merge with the default plugins and the expansion of `multiPoint`, against a slow version of the rules."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kframework.config.configuration import ProfileConfiguration
from kframework.config.default_plugins import IN_TREE_PLUGINS, REPLACEMENT, default_plugins
from kframework.config.expand import ExtensionPoints, expand, expand_all, merge_sets
from kframework.config.load import default_configuration, load_configuration, parse
from kframework.config.models import GROUP_POINTS, POINTS, PluginEntry, Plugins, PluginSet, camel
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


PLACEMENTS = FeatureGates(settings={"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})


def in_tree_points(name: str) -> frozenset[str]:
    """Return the points of a built-in plugin."""
    if name not in IN_TREE_PLUGINS:
        raise KeyError(name)
    return Registry.from_installed().points(name)


def expanded(body: str) -> tuple[ExtensionPoints, ...]:
    return expand_all(parse(HEADER + body, "c.yaml"), in_tree_points)


def plugins(body: str) -> ExtensionPoints:
    (points,) = expanded(f"profiles:\n- plugins: {body}\n")
    return points


def errors(body: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        expanded(body)
    return str(caught.value).splitlines()


DEFAULT_ORDER = {
    "pre_enqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queue_sort": "PrioritySort",
    "pre_filter": "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone"
    " PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures",
    "filter": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions"
    " NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources"
    " NodeDeclaredFeatures",
    "post_filter": "DynamicResources DefaultPreemption",
    "pre_score": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity"
    " NodeResourcesBalancedAllocation",
    "score": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity"
    " DynamicResources NodeResourcesBalancedAllocation ImageLocality",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "",
    "pre_bind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "post_bind": "",
}


def test_default_profile_expands_to_kube_schedulers_order() -> None:
    (points,) = expand_all(default_configuration(), in_tree_points)
    assert {point: " ".join(points[point]) for point in POINTS} == DEFAULT_ORDER
    assert dict(points.weights) == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


Names = list[str]


@pytest.mark.parametrize(
    ("enabled", "disabled", "merged"),
    [
        ("", "", "A0 B1 C2"),
        ("X7", "", "A0 B1 C2 X7"),
        ("", "B", "A0 C2"),
        ("", "*", ""),
        ("X7 B9", "*", "X7 B9"),
        ("B9", "", "A0 B9 C2"),
        ("B9", "B", "A0 C2 B9"),
        ("C9 X1 A8", "", "A8 B1 C9 X1"),
        ("B8 B9", "", "A0 B9 C2 B8"),
        ("X1 X2", "", "A0 B1 C2 X1 X2"),
        ("", "Z", "A0 B1 C2"),
    ],
)
def test_custom_entries_take_the_place_of_defaults_or_go_last(enabled: str, disabled: str, merged: str) -> None:
    default = plugin_set("A0 B1 C2".split(), [])
    result = merge_sets(default, plugin_set(enabled.split(), disabled.split()))
    assert [f"{entry.name}{entry.weight}" for entry in result.enabled] == merged.split()
    assert [entry.name for entry in result.disabled] == disabled.split()


def plugin_set(enabled: Names, disabled: Names) -> PluginSet:
    return PluginSet(
        enabled=tuple(PluginEntry(name=text[0], weight=int(text[1:])) for text in enabled),
        disabled=tuple(PluginEntry(name=name) for name in disabled),
    )


def test_specific_key_comes_first_in_its_own_order() -> None:
    points = plugins("{filter: {enabled: [{name: NodePorts}, {name: NodeName}]}}")
    assert points["filter"][:4] == ("NodePorts", "NodeName", "NodeUnschedulable", "TaintToleration")
    assert len(points["filter"]) == 14


def test_key_that_disables_everything_has_just_its_own() -> None:
    points = plugins("{filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}, {name: NodeName}]}}")
    assert points["filter"] == ("NodePorts", "NodeName")
    assert " ".join(points["pre_filter"]) == DEFAULT_ORDER["pre_filter"]


@pytest.mark.parametrize(
    ("body", "weight"),
    [
        ("{score: {enabled: [{name: TaintToleration, weight: 7}]}}", 7),
        ("{score: {enabled: [{name: TaintToleration, weight: 0}]}}", 1),
        ("{score: {enabled: [{name: TaintToleration}]}}", 1),
        ("{multiPoint: {enabled: [{name: TaintToleration, weight: 7}]}}", 7),
        ("{multiPoint: {enabled: [{name: TaintToleration}]}}", 1),
        (
            (
                "{score: {enabled: [{name: TaintToleration, weight: 5}]},"
                " multiPoint: {enabled: [{name: TaintToleration, weight: 7}]}}"
            ),
            5,
        ),
        ("{filter: {enabled: [{name: TaintToleration, weight: 9}]}}", 3),
    ],
)
def test_weight_of_the_score_key_beats_multi_point(body: str, weight: int) -> None:
    assert plugins(body).weights["TaintToleration"] == weight


def test_points_are_those_of_the_registered_plugin() -> None:
    def points_of(name: str) -> frozenset[str]:
        return frozenset({"post_bind"}) if name == "ImageLocality" else in_tree_points(name)

    (profile,) = default_configuration().profiles
    points = expand(profile, points_of)
    assert points["post_bind"] == ("ImageLocality",)
    assert "ImageLocality" not in points["score"]


def test_gated_plugins_are_known_and_in_no_default_set() -> None:
    enabled = [entry.name for entry in default_plugins(DEFAULT_GATES).multi_point.enabled]
    assert sorted(IN_TREE_PLUGINS - set(enabled)) == [
        "GangScheduling",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
    ]
    points = plugins("{multiPoint: {enabled: [{name: GangScheduling}]}}")
    assert points["pre_enqueue"][-1] == "GangScheduling"


def test_gate_of_groups_adds_their_plugin_at_the_end() -> None:
    gates = FeatureGates(settings={"GenericWorkload": True})
    assert default_plugins(gates).multi_point.enabled[-1] == PluginEntry(name="GangScheduling")
    assert [entry.name for entry in default_plugins(PLACEMENTS).multi_point.enabled[-3:]] == [
        *("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
    ]
    assert default_plugins(FeatureGates("1.36", {"GenericWorkload": True})) == default_plugins(DEFAULT_GATES)


def test_placement_points_are_taken_with_a_notice() -> None:
    text = HEADER + "profiles:\n- plugins:\n    placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}\n"
    configuration = parse(text, "c.yaml")
    expand_all(configuration, in_tree_points)
    problem = "has no effect without the feature gate TopologyAwareWorkloadScheduling"
    assert configuration.warnings == (f"c.yaml:5: profiles[0].plugins.placementGenerate: {problem}",)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "{score: {enabled: [{name: ImageLocality}, {name: ImageLocalty}]}}",
            "score.enabled[1].name: ScorePlugin \"ImageLocalty\" does not exist (did you mean 'ImageLocality'?)",
        ),
        ("{postBind: {enabled: [{name: X}]}}", 'postBind.enabled[0].name: PostBindPlugin "X" does not exist'),
        (
            "{multiPoint: {enabled: [{name: X}]}}",
            (
                'multiPoint.enabled[0].name: there is no plugin "X"; '
                "install its package, or name its class with --plugin FILE.py:CLASS"
            ),
        ),
        (
            "{multiPoint: {enabled: [{name: EBSLimits}]}}",
            f'multiPoint.enabled[0].name: there is no plugin "EBSLimits" any more; {REPLACEMENT}',
        ),
        (
            "{filter: {enabled: [{name: ImageLocality}]}}",
            'filter.enabled[0].name: plugin "ImageLocality" does not extend FilterPlugin plugin',
        ),
        (
            "{preEnqueue: {enabled: [{name: SchedulingGates}, {name: SchedulingGates}]}}",
            'preEnqueue.enabled[1].name: plugin "SchedulingGates" already registered as "PreEnqueuePlugin"',
        ),
        (
            "{multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            'multiPoint.enabled[1].name: plugin "NodeName" already registered as "FilterPlugin"',
        ),
        (
            "{queueSort: {disabled: [{name: '*'}]}}",
            (
                'queueSort: only one queue sort plugin required for profile with scheduler name "default-scheduler",'
                " but got 0"
            ),
        ),
        (
            "{multiPoint: {disabled: [{name: PrioritySort}]}}",
            (
                'queueSort: only one queue sort plugin required for profile with scheduler name "default-scheduler",'
                " but got 0"
            ),
        ),
        (
            "{bind: {disabled: [{name: DefaultBinder}]}}",
            'bind: at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
        ),
        (
            "{placementGenerate: {enabled: [{name: NodeName}]}}",
            'placementGenerate.enabled[0].name: plugin "NodeName" does not extend PlacementGeneratePlugin plugin',
        ),
    ],
)
def test_construction_errors_read_as_kube_schedulers(body: str, message: str) -> None:
    lines = errors(f"profiles:\n- plugins: {body}\n")
    assert lines == [f"c.yaml:4: profiles[0].plugins.{message}"]


def test_plugin_twice_in_multi_point_is_no_error_where_every_point_overrides_it() -> None:
    twice = "multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}"
    points = plugins(f"{{{twice}, filter: {{enabled: [{{name: NodeName}}]}}}}")
    assert points["filter"].count("NodeName") == 1


def test_unknown_names_go_unnoticed_where_nothing_is_expanded() -> None:
    everything = {camel(point): "{disabled: [{name: '*'}]}" for point in (*POINTS, *GROUP_POINTS)}
    everything["queueSort"] = "{disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}"
    everything["bind"] = "{disabled: [{name: '*'}], enabled: [{name: DefaultBinder}]}"
    keys = ", ".join(f"{key}: {value}" for key, value in everything.items())
    points = plugins(f"{{{keys}, multiPoint: {{enabled: [{{name: X}}]}}}}")
    assert {point for point in POINTS if points[point]} == {"queue_sort", "bind"}


def test_known_names_help_to_name_the_nearest() -> None:
    (profile,) = parse(HEADER + "profiles: [{plugins: {score: {enabled: [{name: FewestPod}]}}}]\n", "c.yaml").profiles

    def points(name: str) -> frozenset[str]:
        return frozenset({"score"}) if name == "FewestPods" else in_tree_points(name)

    with pytest.raises(ConfigError) as caught:
        expand(profile, points, known=["FewestPods"])
    assert caught.value.nearest == "FewestPods"


@pytest.mark.parametrize(
    ("key", "name"),
    [("queueSort", "ImageLocalty"), ("multiPoint", "Coscheduling"), ("queueSort", "Coscheduling")],
)
def test_plugin_that_would_not_help_is_not_suggested(key: str, name: str) -> None:
    text = f"{HEADER}profiles: [{{plugins: {{{key}: {{enabled: [{{name: {name}}}], disabled: [{{name: '*'}}]}}}}}}]\n"
    (profile,) = parse(text, "c.yaml").profiles
    with pytest.raises(ConfigError) as caught:
        expand(profile, in_tree_points)
    assert caught.value.nearest is None


def test_weights_must_not_overflow() -> None:
    (profile,) = default_configuration().profiles
    heavy = PluginEntry.model_construct(name="ImageLocality", weight=2**63 // 100)
    plugins = profile.plugins.model_copy(update={"score": PluginSet.model_construct(enabled=(heavy,), disabled=())})
    broken = ProfileConfiguration(profile.scheduler_name, None, plugins, profile.args, profile.location)
    with pytest.raises(ConfigError, match="total score of Score plugins could overflow"):
        expand(broken, in_tree_points)


def test_errors_of_all_profiles_are_reported_together() -> None:
    body = (
        "profiles:\n- schedulerName: a\n  plugins: {score: {enabled: [{name: X}]}}\n"
        "- schedulerName: b\n  plugins: {bind: {disabled: [{name: '*'}]}}\n"
    )
    assert errors(body) == [
        'c.yaml:5: profiles[0].plugins.score.enabled[0].name: ScorePlugin "X" does not exist',
        'c.yaml:7: profiles[1].plugins.bind: at least one bind plugin is needed for profile with scheduler name "b"',
    ]


def test_check_reports_what_any_stage_finds(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEADER)
    configuration = load_configuration(path)
    points = expand_all(configuration, in_tree_points)
    assert (configuration, points) == (default_configuration(), expand_all(default_configuration(), in_tree_points))
    for body in ("parallelism: 0\n", "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]\n"):
        path.write_text(HEADER + body)
        with pytest.raises(ConfigError):
            expand_all(load_configuration(path), in_tree_points)


def sorts(name: str) -> frozenset[str]:
    return frozenset({"queue_sort"}) if name in ("Q1", "Q2") else in_tree_points(name)


def profiles(first: str, second: str, config: tuple[str, str] = ("[]", "[]")) -> str:
    return (
        f"{HEADER}profiles:\n- schedulerName: a\n  plugins: {first}\n  pluginConfig: {config[0]}\n"
        f"- schedulerName: b\n  plugins: {second}\n  pluginConfig: {config[1]}\n"
    )


Q1 = "{queueSort: {disabled: [{name: '*'}], enabled: [{name: Q1}]}}"
Q2 = "{queueSort: {disabled: [{name: '*'}], enabled: [{name: Q2}]}}"
BOTH = "{queueSort: {enabled: [{name: Q1}, {name: Q2}]}}"
MULTI_Q1 = "{multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Q1}]}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (profiles(Q1, Q2), "must be the same for all profiles; profiles[0] enables Q1 there"),
        (profiles("{}", Q1), "must be the same for all profiles; profiles[0] enables no plugin there"),
        (
            profiles(Q1, Q1, ("[{name: Q1, args: {a: 1}}]", "[{name: Q1, args: {a: 2}}]")),
            'profiles[1].pluginConfig[0].args: Invalid value: {"a":2}: queueSort must be the same for all profiles',
        ),
        (
            profiles("{}", MULTI_Q1),
            'profiles[1].plugins: different queue sort plugins for profile "b": "Q1", first: "PrioritySort"',
        ),
        (
            profiles(MULTI_Q1, MULTI_Q1, ("[{name: Q1, args: {a: 1}}]", "[]")),
            'profiles[1].pluginConfig: different queue sort plugin args for profile "b"',
        ),
        (
            profiles(BOTH, BOTH),
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        ),
    ],
)
def test_all_profiles_have_one_queue_sort(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand_all(parse(text), sorts)
    (line,) = str(caught.value).splitlines()
    assert message in line


def test_equal_queue_sorts_are_fine() -> None:
    same = ("[{name: Q1, args: {a: 1}}]",) * 2
    assert [points["queue_sort"] for points in expand_all(parse(profiles(Q1, Q1, same)), sorts)] == [("Q1",)] * 2


REMOVED = (
    'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1"); '
    f"{REPLACEMENT}"
)

NEGATIVE = "must be non-negative; to ignore its score, disable the plugin under score"


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("profiles: [{schedulerName: ''}]\n", ["profiles[0].schedulerName: Required value"]),
        ("profiles: [{schedulerName: a}, {}]\n", ["profiles[1].schedulerName: Required value"]),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
            ['profiles[1].schedulerName: Duplicate value: "a"'],
        ),
        (
            "profiles: [{percentageOfNodesToScore: 101}]\n",
            ["profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
        ),
        (
            "profiles: [{pluginConfig: [{name: A}, {name: A}]}]\n",
            ['profiles[0].pluginConfig[1]: Duplicate value: "A"'],
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: A, weight: 1}, {name: B, weight: -1}]}}}]\n",
            [f"profiles[0].plugins.score.enabled[1].weight: Invalid value: -1: {NEGATIVE}"],
        ),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: -2}]}}}]\n",
            [f"profiles[0].plugins.multiPoint.enabled[0].weight: Invalid value: -2: {NEGATIVE}"],
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}, pluginConfig: [{name: CinderLimits}]}]\n",
            [
                f'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": {REMOVED}',
                f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {REMOVED}',
            ],
        ),
    ],
)
def test_rules_of_profiles(body: str, messages: list[str]) -> None:
    assert errors(body) == [f"c.yaml:3: {message}" for message in messages]


def test_only_profile_has_a_default_name_and_an_explicit_percentage_of_zero_is_kept() -> None:
    (profile,) = parse(HEADER + "percentageOfNodesToScore: 50\nprofiles: [{percentageOfNodesToScore: 0}]\n").profiles
    assert (profile.scheduler_name, profile.percentage_of_nodes_to_score) == ("default-scheduler", 0)
    (profile,) = parse(HEADER + "profiles: [{}]\n").profiles
    assert profile.percentage_of_nodes_to_score is None


# --- the rules, told slowly -------------------------------------------------------------------------------------------


def slow_merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = [entry.name for entry in custom.disabled]
    waiting = list(custom.enabled)
    merged = []
    for entry in default.enabled:
        if "*" in disabled or entry.name in disabled:
            continue
        replacement = None
        for candidate in waiting:
            if candidate.name == entry.name:
                replacement = candidate
        if replacement is None:
            merged.append(entry)
        else:
            merged.append(replacement)
            last = max(index for index, candidate in enumerate(waiting) if candidate is replacement)
            del waiting[last]
    return PluginSet(enabled=tuple(merged + waiting), disabled=tuple(PluginEntry(name=name) for name in disabled))


class Refused(Exception):
    pass


def slow_point(point: str, plugins: Plugins, points_of: Callable[[str], frozenset[str]]) -> list[str]:
    key = getattr(plugins, point)
    specific = [entry.name for entry in key.enabled]
    for index, name in enumerate(specific):
        if point not in points_of(name) or name in specific[:index]:
            raise Refused(name)
    if any(entry.name == "*" for entry in key.disabled):
        return specific
    override, multi = set(), []
    for entry in plugins.multi_point.enabled:
        if point not in points_of(entry.name) or any(off.name == entry.name for off in key.disabled):
            continue
        if entry.name in specific:
            override.add(entry.name)
        elif entry.name in multi:
            raise Refused(entry.name)
        else:
            multi.append(entry.name)
    first = [name for name in specific if name in override]
    return first + multi + [name for name in specific if name not in override]


def slow_weight(name: str, plugins: Plugins) -> int:
    for entries in (plugins.score.enabled, plugins.multi_point.enabled):
        for entry in entries:
            if entry.name == name:
                return entry.weight or 1
    raise AssertionError(name)


NAMES = string.ascii_uppercase[:8]
ENTRIES = st.lists(st.builds(PluginEntry, name=st.sampled_from(NAMES), weight=st.integers(0, 9)), max_size=6)
OFF = st.lists(st.builds(PluginEntry, name=st.sampled_from(NAMES + "*" * 2)), max_size=3)
SETS = st.builds(PluginSet, enabled=ENTRIES, disabled=OFF)
SOME_POINTS = ("pre_filter", "filter", "score", "permit")
PLUGINS = st.builds(Plugins, multi_point=SETS, **dict.fromkeys(SOME_POINTS, SETS))
TABLES = st.fixed_dictionaries({name: st.frozensets(st.sampled_from(SOME_POINTS)) for name in NAMES})


@given(SETS, SETS)
def test_merging_agrees_with_the_slow_rules(default: PluginSet, custom: PluginSet) -> None:
    names = [entry.name for entry in default.enabled]
    assume(len(set(names)) == len(names))
    assert merge_sets(default, custom) == slow_merge(default, custom)


@given(PLUGINS, TABLES)
def test_expansion_agrees_with_the_slow_rules(plugins: Plugins, table: dict[str, frozenset[str]]) -> None:
    def points_of(name: str) -> frozenset[str]:
        return {"Q": frozenset({"queue_sort"}), "Y": frozenset({"bind"}), **table}[name]

    needed = {"queue_sort": "Q", "bind": "Y"}
    plugins = plugins.model_copy(
        update={point: PluginSet(enabled=(PluginEntry(name=name),)) for point, name in needed.items()}
    )
    (default,) = default_configuration().profiles
    profile = ProfileConfiguration("x", None, plugins, {}, default.location)
    try:
        order = {point: tuple(slow_point(point, plugins, points_of)) for point in POINTS}
    except Refused:
        with pytest.raises(ConfigError):
            expand(profile, points_of)
        return
    points = expand(profile, points_of)
    assert {point: points[point] for point in POINTS} == order
    assert dict(points.weights) == {name: slow_weight(name, plugins) for name in order["score"]}
