"""The effective configuration: what it shows, and that loading it again gives the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any  # what a loaded YAML document is

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kframework.config.args import decode_args
from kframework.config.configuration import Configuration
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.load import default_configuration, parse
from kframework.config.models import POINTS, camel
from kframework.config.show import effective, effective_options, effective_yaml
from kframework.core.runtime.registry import load_in_tree_args

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OWN = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\n"


def written(configuration: Configuration) -> str:
    return effective_yaml(configuration, load_in_tree_args(configuration))


def shown(body: str = "") -> list[Any]:
    return list(yaml.safe_load_all(written(parse(HEADER + body))))


def test_effective_default_has_every_default_in_its_place() -> None:
    document, _ = shown()
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert set(document) == {
        "apiVersion",
        "kind",
        "clientConnection",
        "enableContentionProfiling",
        "enableProfiling",
        "leaderElection",
        "parallelism",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
    }
    assert document["leaderElection"]["leaseDuration"] == "15s"
    assert document["clientConnection"]["qps"] == 50
    (profile,) = document["profiles"]
    assert profile["schedulerName"] == "default-scheduler"
    assert "percentageOfNodesToScore" not in profile
    assert profile["plugins"]["score"] == {}
    assert profile["plugins"]["multiPoint"]["enabled"][4] == {"name": "TaintToleration", "weight": 3}
    assert [entry["name"] for entry in profile["pluginConfig"]] == sorted(load_in_tree_args(default_configuration()))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("DynamicResources", {"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
        ("NodeAffinity", {}),
        ("PodTopologySpread", {"defaultingType": "System"}),
        ("InterPodAffinity", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}),
    ],
)
def test_args_are_shown_with_their_kind_and_defaults(name: str, args: dict[str, object]) -> None:
    document, _ = shown()
    (found,) = [entry["args"] for entry in document["profiles"][0]["pluginConfig"] if entry["name"] == name]
    assert found == {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{name}Args", **args}


def test_yaml_keys_are_sorted_and_numbers_short() -> None:
    text = written(default_configuration())
    assert "  qps: 50\n" in text
    assert text.index("apiVersion") < text.index("clientConnection") < text.index("kind") < text.index("profiles")


def test_args_are_reduced_to_enabled_plugins() -> None:
    document, _ = shown(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: Mine}]}},"
        " pluginConfig: [{name: Mine, args: {b: null}}, {name: NodeAffinity}]}]\n"
    )
    assert document["profiles"][0]["pluginConfig"] == [{"name": "Mine", "args": {"b": None}}]


def test_rarely_set_field_is_shown_only_if_set() -> None:
    document, _ = shown(
        "delayCacheUntilActive: true\n"
        "extenders: [{urlPrefix: 'http://x', enableHTTPS: true, tlsConfig: {insecure: true},"
        " managedResources: [{name: a.b/c}]}]\nprofiles: [{percentageOfNodesToScore: 0}]\n"
    )
    assert document["delayCacheUntilActive"] is True
    assert document["extenders"] == [
        {
            "urlPrefix": "http://x",
            "enableHTTPS": True,
            "tlsConfig": {"insecure": True},
            "httpTimeout": "5s",
            "managedResources": [{"name": "a.b/c"}],
        }
    ]
    assert document["profiles"][0]["percentageOfNodesToScore"] == 0


def test_our_own_document_is_shown_with_its_defaults() -> None:
    configuration = parse(OWN + "seed: 7\ntracing: {exporter: otlp}\n")
    own = effective_options(configuration)
    assert own == {
        "apiVersion": "kframework.dev/v1",
        "kind": "KFrameworkConfiguration",
        "seed": 7,
        "layerMemory": "256Mi",
        "tracing": {"exporter": "otlp", "samplingRatePerMillion": 0},
        "podMaxInUnschedulablePodsDuration": "5m0s",
        "preemptOtherSchedulersPods": True,
        "countDownDisruptionBudgets": True,
        "reportGatedPods": False,
        "gangBindingTimeout": "0s",
        "hookTimeouts": {
            **{"start": "30s", "source": "30s", "preBind": "10m0s"},
            **{"bind": "1m0s", "postBind": "30s", "close": "5s"},
        },
        "profiles": [],
        "emulatedVersion": "1.37",
        "featureGates": {},
    }
    assert list(yaml.safe_load_all(written(configuration))) == [
        effective(configuration, load_in_tree_args(configuration)),
        own,
    ]


NAMES = st.sampled_from([*sorted(IN_TREE_PLUGINS), "Mine", "Other", 'EBS: odd, "name"'])
#: A name stands once in a key: twice is refused by the expansion, and so is never shown.
ENTRIES = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"weight": st.integers(0, 50)}),
    max_size=5,
    unique_by=lambda entry: str(entry["name"]),
)
OFF = st.lists(st.fixed_dictionaries({"name": NAMES | st.just("*")}), max_size=3)
SET = st.fixed_dictionaries({}, optional={"enabled": ENTRIES, "disabled": OFF})
KEYS = [camel(point) for point in POINTS if point != "queue_sort"]
PLUGINS = st.fixed_dictionaries({}, optional=dict.fromkeys([*KEYS, "multiPoint", "placementScore"], SET))

AFFINITY = st.just(
    {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 2, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
        ]
    }
)
CONSTRAINTS = st.just([{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}])
ARGS = {
    "InterPodAffinity": st.fixed_dictionaries({}, optional={"hardPodAffinityWeight": st.integers(0, 100)}),
    "NodeAffinity": st.fixed_dictionaries({}, optional={"addedAffinity": AFFINITY}),
    "PodTopologySpread": st.fixed_dictionaries(
        {}, optional={"defaultingType": st.just("List"), "defaultConstraints": CONSTRAINTS}
    ).filter(lambda args: "defaultConstraints" not in args or "defaultingType" in args),
    "NodeResourcesFit": st.fixed_dictionaries(
        {}, optional={"ignoredResources": st.just(["a/b"]), "scoringStrategy": st.just({"type": "MostAllocated"})}
    ),
    "DynamicResources": st.fixed_dictionaries({}, optional={"filterTimeout": st.sampled_from(["0s", "1m30s", "7ms"])}),
    "Mine": st.dictionaries(st.text(min_size=1), st.none() | st.integers() | st.text() | st.lists(st.booleans())),
}
CONFIGS = st.fixed_dictionaries({}, optional=ARGS).map(
    lambda chosen: [{"name": name, "args": args} for name, args in chosen.items()]
)
PROFILES = st.fixed_dictionaries(
    {"plugins": PLUGINS, "pluginConfig": CONFIGS}, optional={"percentageOfNodesToScore": st.integers(0, 100)}
)
OPTIONS = st.fixed_dictionaries({}, optional={"seed": st.integers(0, 99), "layerMemory": st.just("1Gi")})


@pytest.mark.slow
@given(st.lists(PROFILES, max_size=3), OPTIONS, st.booleans())
@example(
    [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}},
            "pluginConfig": [{"name": "Mine", "args": {"\x85": 1}}],
        }
    ],
    {},
    False,
)
def test_effective_configuration_loads_as_the_same(
    profiles: list[dict[str, object]], options: dict[str, object], elect: bool
) -> None:
    named = [{"schedulerName": f"s{index}", **profile} for index, profile in enumerate(profiles)]
    scheduler = {"profiles": named, "leaderElection": {"leaderElect": elect}, "extenders": [{"filterVerb": "f"}]}
    text = HEADER + yaml.safe_dump(scheduler) + "---\n" + OWN + (yaml.safe_dump(options) if options else "")
    configuration = parse(text)
    again = parse(written(configuration))
    assert without_args(again) == without_args(configuration)
    models = load_in_tree_args(configuration)
    assert decode_args(again, models) == decode_args(configuration, models)
    assert written(again) == written(configuration)


def without_args(configuration: Configuration) -> Configuration:
    profiles = tuple(replace(profile, args={}) for profile in configuration.profiles)
    return replace(configuration, profiles=profiles)
