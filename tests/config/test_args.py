"""The args of kube-scheduler's own plugins: defaults, rules, kinds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from kframework.config.args import ApiArgs, decode_args
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.framework.plugin import PluginArgs
from kframework.plugins.default_preemption import DefaultPreemptionArgs
from kframework.plugins.dynamic_resources.args import DynamicResourcesArgs
from kframework.plugins.inter_pod_affinity.plugin import InterPodAffinityArgs
from kframework.plugins.node_affinity import NodeAffinityArgs
from kframework.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocationArgs
from kframework.plugins.node_resources_fit.args import NodeResourcesFitArgs
from kframework.plugins.pod_topology_spread.plugin import PodTopologySpreadArgs
from kframework.plugins.shared_args import UtilizationShapePoint
from kframework.plugins.volume_binding import VolumeBindingArgs
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

PLUGINS = {name: Registry.from_installed().load(name) for name in Registry.from_installed() if name in IN_TREE_PLUGINS}
ARGS = {name: plugin.Args for name, plugin in PLUGINS.items() if issubclass(plugin.Args, ApiArgs)}
CPU_AND_MEMORY = [("cpu", 1), ("memory", 1)]


def document(plugin: str, args: object, plugins: object = None) -> str:
    profile = {"pluginConfig": [{"name": plugin, "args": args}], "plugins": plugins}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**header, "profiles": [profile]})


def loaded(plugin: str, args: object = None) -> PluginArgs:
    return decoded(document(plugin, args))[plugin]


def decoded(text: str) -> Mapping[str, PluginArgs]:
    """Return the args of the only profile of a text."""
    (args,) = decode_args(parse(text), ARGS)
    return args


def errors(plugin: str, args: object, plugins: object = None) -> list[str]:
    """Return the messages of the errors that args give, each from its path below the args on."""
    with pytest.raises(ConfigError) as caught:
        decoded(document(plugin, args, plugins))
    return [line.removeprefix("profiles[0].pluginConfig[0].args.") for line in places_dropped(str(caught.value))]


def places_dropped(text: str) -> list[str]:
    return [line[line.index("profiles") :] for line in text.splitlines()]


def test_eight_plugins_have_args() -> None:
    assert {f"{name}Args": model.__name__ for name, model in ARGS.items()} == {
        name: name
        for name in (
            "DefaultPreemptionArgs",
            "DynamicResourcesArgs",
            "InterPodAffinityArgs",
            "NodeAffinityArgs",
            "NodeResourcesBalancedAllocationArgs",
            "NodeResourcesFitArgs",
            "PodTopologySpreadArgs",
            "VolumeBindingArgs",
        )
    }


@pytest.mark.parametrize("args", [None, {}, "header"])
@pytest.mark.parametrize("plugin", sorted(ARGS))
def test_absent_and_empty_args_are_all_defaults(plugin: str, args: object) -> None:
    if args == "header":
        args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    assert loaded(plugin, args) == ARGS[plugin]()
    assert decoded(document("ImageLocality", None))[plugin] == ARGS[plugin]()


def test_defaults_equal_those_of_kube_scheduler() -> None:
    preemption = DefaultPreemptionArgs()
    assert (preemption.min_candidate_nodes_percentage, preemption.min_candidate_nodes_absolute) == (10, 100)
    affinity = InterPodAffinityArgs()
    assert (affinity.hard_pod_affinity_weight, affinity.ignore_preferred_terms_of_existing_pods) == (1, False)
    assert NodeAffinityArgs().added_affinity is None
    fit = NodeResourcesFitArgs()
    assert (fit.ignored_resources, fit.ignored_resource_groups) == ((), ())
    assert fit.scoring_strategy is not None
    assert fit.scoring_strategy.type == "LeastAllocated"
    assert [(resource.name, resource.weight) for resource in fit.scoring_strategy.resources] == CPU_AND_MEMORY
    balanced = NodeResourcesBalancedAllocationArgs()
    assert [(resource.name, resource.weight) for resource in balanced.resources] == CPU_AND_MEMORY
    spread = PodTopologySpreadArgs()
    assert (spread.default_constraints, spread.defaulting_type) == ((), "System")
    assert VolumeBindingArgs().bind_timeout_seconds == 600
    dynamic = DynamicResourcesArgs()
    assert [dynamic.filter_timeout, dynamic.binding_timeout] == [10.0, 600.0]


@pytest.mark.parametrize("resources", [None, []])
def test_empty_resources_are_defaulted(resources: object) -> None:
    fit = loaded("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": resources}})
    assert isinstance(fit, NodeResourcesFitArgs) and fit.scoring_strategy is not None
    assert [(resource.name, resource.weight) for resource in fit.scoring_strategy.resources] == CPU_AND_MEMORY
    balanced = loaded("NodeResourcesBalancedAllocation", {"resources": resources})
    assert balanced == NodeResourcesBalancedAllocationArgs()


def test_weight_of_zero_is_one() -> None:
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "a", "weight": 0}, {"name": "b"}]}}
    fit = loaded("NodeResourcesFit", args)
    assert isinstance(fit, NodeResourcesFitArgs) and fit.scoring_strategy is not None
    assert [resource.weight for resource in fit.scoring_strategy.resources] == [1, 1]


def test_explicit_zero_is_kept_where_zero_means_something() -> None:
    preemption = loaded("DefaultPreemption", {"minCandidateNodesPercentage": 0})
    assert isinstance(preemption, DefaultPreemptionArgs)
    assert preemption.min_candidate_nodes_percentage == 0
    affinity = loaded("InterPodAffinity", {"hardPodAffinityWeight": 0})
    assert isinstance(affinity, InterPodAffinityArgs)
    assert affinity.hard_pod_affinity_weight == 0
    dynamic = loaded("DynamicResources", {"filterTimeout": "0s"})
    assert isinstance(dynamic, DynamicResourcesArgs)
    assert dynamic.filter_timeout == 0.0


RATIO = "scoringStrategy.requestedToCapacityRatio"
LABEL = "must be [dns.prefix/]name of at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"


def strategy(**fields: object) -> object:
    return {"scoringStrategy": fields}


def ratio(*points: tuple[int, int]) -> object:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def constraint(**fields: object) -> object:
    given = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}
    return {"defaultingType": "List", "defaultConstraints": [given]}


RULES: list[tuple[str, object, list[str]]] = [
    (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
        [
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ],
    ),
    (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        [
            (
                "minCandidateNodesAbsolute: Invalid value: 0:"
                " cannot be zero at the same time as minCandidateNodesPercentage"
            ),
            (
                "minCandidateNodesPercentage: Invalid value: 0:"
                " cannot be zero at the same time as minCandidateNodesAbsolute"
            ),
        ],
    ),
    (
        "InterPodAffinity",
        {"hardPodAffinityWeight": -1},
        ["hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]"],
    ),
    (
        "NodeResourcesFit",
        {"ignoredResources": ["a/b", "/x"], "ignoredResourceGroups": ["ok.io", "a/b"]},
        [
            "ignoredResourceGroups[1]: Invalid value: \"a/b\": resource group name can't contain '/'",
            f'ignoredResources[1]: Invalid value: "/x": {LABEL}',
        ],
    ),
    (
        "NodeResourcesFit",
        strategy(type="leastAllocated"),
        [
            (
                'scoringStrategy.type: Unsupported value: "leastAllocated": supported values: "LeastAllocated",'
                ' "MostAllocated", "RequestedToCapacityRatio" (did you mean \'LeastAllocated\'?)'
            )
        ],
    ),
    (
        "NodeResourcesFit",
        strategy(resources=[{"name": "cpu"}]),
        [
            (
                'scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated",'
                ' "MostAllocated", "RequestedToCapacityRatio"'
            )
        ],
    ),
    (
        "NodeResourcesFit",
        strategy(type="MostAllocated", resources=[{"name": "cpu", "weight": 101}, {"name": "memory", "weight": -1}]),
        [
            (
                "scoringStrategy.resources[0].weight: Invalid value: 101:"
                " resource weight of cpu not in valid range (0, 100]"
            ),
            (
                "scoringStrategy.resources[1].weight: Invalid value: -1:"
                " resource weight of memory not in valid range (0, 100]"
            ),
        ],
    ),
    (
        "NodeResourcesFit",
        strategy(type="RequestedToCapacityRatio"),
        [f"{RATIO}: Required value: must be specified when type is RequestedToCapacityRatio"],
    ),
    (
        "NodeResourcesFit",
        strategy(type="LeastAllocated", requestedToCapacityRatio={}),
        [f"{RATIO}: Forbidden: must be nil when type is not RequestedToCapacityRatio"],
    ),
    ("NodeResourcesFit", ratio(), [f"{RATIO}.shape: Required value: at least one point must be specified"]),
    (
        "NodeResourcesFit",
        ratio((10, 1), (10, 2), (5, 3), (4, 1)),
        [f"{RATIO}.shape[1].utilization: Invalid value: 10: values must be sorted in increasing order"],
    ),
    (
        "NodeResourcesFit",
        ratio((-1, 11), (101, -1)),
        [
            f"{RATIO}.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            f"{RATIO}.shape[0].utilization: Invalid value: -1: not in valid range [0, 100]",
            f"{RATIO}.shape[1].score: Invalid value: -1: not in valid range [0, 10]",
            f"{RATIO}.shape[1].utilization: Invalid value: 101: not in valid range [0, 100]",
        ],
    ),
    (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
        [
            "resources[0].weight: Invalid value: 2: must be 1",
            'resources[1].name: Duplicate value: "cpu"',
        ],
    ),
    (
        "PodTopologySpread",
        {"defaultingType": "list"},
        [('defaultingType: Unsupported value: "list": supported values: "System", "List" (did you mean \'List\'?)')],
    ),
    (
        "PodTopologySpread",
        {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
    ),
    (
        "PodTopologySpread",
        {"defaultingType": "List", "defaultConstraints": [{}]},
        [
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
            "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
        ],
    ),
    (
        "PodTopologySpread",
        constraint(topologyKey="a b", whenUnsatisfiable="doNotSchedule", labelSelector={}),
        [
            (
                "defaultConstraints[0].labelSelector: Forbidden:"
                " constraint must not define a selector, as they deduced for each pod"
            ),
            f'defaultConstraints[0].topologyKey: Invalid value: "a b": {LABEL}',
            (
                'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "doNotSchedule":'
                ' supported values: "DoNotSchedule", "ScheduleAnyway" (did you mean \'DoNotSchedule\'?)'
            ),
        ],
    ),
    (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": skew, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"} for skew in (1, 2)
            ],
        },
        ['defaultConstraints[1]: Duplicate value: "{z, DoNotSchedule}"'],
    ),
    (
        "PodTopologySpread",
        constraint(topologyKeys=["x"]),
        ["defaultConstraints[0].topologyKeys: unknown field \"topologyKeys\" (did you mean 'topologyKey'?)"],
    ),
    (
        "PodTopologySpread",
        constraint(maxSkew="1"),
        ["defaultConstraints[0].maxSkew: expected an integer, got a string"],
    ),
    (
        "VolumeBinding",
        {"bindTimeoutSeconds": -1},
        ["bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"],
    ),
    (
        "VolumeBinding",
        {"shape": [{"utilization": 0, "score": 11}]},
        ["shape[0].score: Invalid value: 11: not in valid range [0, 10]"],
    ),
    (
        "DynamicResources",
        {"filterTimeout": "-1ms", "bindingTimeout": "999ms"},
        [
            'bindingTimeout: Invalid value: "999ms": must be at least 1 second',
            'filterTimeout: Invalid value: "-1ms": must be zero or positive',
        ],
    ),
    (
        "DynamicResources",
        {"filterTimeout": 10},
        ['filterTimeout: Invalid value: 10: expected a duration in quotes, such as "1m30s"'],
    ),
]


@pytest.mark.parametrize(("plugin", "args", "messages"), RULES)
def test_invalid_args_are_refused_with_the_rule(plugin: str, args: object, messages: list[str]) -> None:
    assert sorted(errors(plugin, args)) == messages


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}),
        ("InterPodAffinity", {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True}),
        ("NodeResourcesFit", {"ignoredResources": ["nvidia.com/gpu"], "ignoredResourceGroups": ["example.com"]}),
        ("NodeResourcesFit", ratio((0, 0), (100, 10))),
        ("NodeResourcesFit", strategy(type="MostAllocated", resources=[{"name": "cpu", "weight": 100}])),
        ("NodeResourcesFit", {"scoringStrategy": None}),
        ("PodTopologySpread", constraint(minDomains=0, nodeAffinityPolicy="x", matchLabelKeys=["a b"])),
        ("PodTopologySpread", {"defaultingType": ""}),
        ("VolumeBinding", {"bindTimeoutSeconds": 0}),
        ("DynamicResources", {"filterTimeout": "0s", "bindingTimeout": "1s"}),
    ],
)
def test_args_at_the_limit_are_accepted(plugin: str, args: object) -> None:
    loaded(plugin, args)


def added(required: object = None, preferred: object = None) -> object:
    return {
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


def term(operator: str, *values: object, key: str = "a", field: str = "matchExpressions") -> object:
    return {field: [{"key": key, "operator": operator, "values": list(values)}]}


def test_added_affinity_is_a_node_affinity() -> None:
    needed = {"nodeSelectorTerms": [term("In", "x"), {}]}
    args = loaded("NodeAffinity", added(needed, [{"weight": 5, "preference": term("Exists")}]))
    assert isinstance(args, NodeAffinityArgs) and args.added_affinity is not None
    selector = args.added_affinity.required_during_scheduling_ignored_during_execution
    assert selector is not None
    assert selector.node_selector_terms[0].match_expressions[0].values == ("x",)
    (preferred,) = args.added_affinity.preferred_during_scheduling_ignored_during_execution
    assert (preferred.weight, preferred.preference.match_expressions[0].operator) == (5, "Exists")


@pytest.mark.parametrize(
    "bad",
    [
        term("in", "x"),
        term("In"),
        term("NotIn"),
        term("Exists", "x"),
        term("DoesNotExist", "x"),
        term("Gt", "x"),
        term("Lt", "1", "2"),
        term("In", "x", key="a b"),
        term("In", "not a value"),
        term("In", "a", "b", key="metadata.name", field="matchFields"),
        term("Exists", key="metadata.name", field="matchFields"),
    ],
)
def test_node_selector_terms_of_an_added_affinity_are_checked(bad: object) -> None:
    (message,) = errors("NodeAffinity", added({"nodeSelectorTerms": [{}, bad]}))
    assert message.startswith("addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]: ")
    (message,) = errors("NodeAffinity", added(None, [{"weight": 1, "preference": bad}]))
    assert message.startswith("addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference: ")
    loaded("NodeAffinity", added(None, [{"weight": 0, "preference": bad}]))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"addedAffinity": {"required": {}}},
            'addedAffinity.required: unknown field "required"',
        ),
        (
            added({"nodeSelectorTerms": [{"matchExpression": []}]}),
            (
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpression:"
                " unknown field \"matchExpression\" (did you mean 'matchExpressions'?)"
            ),
        ),
        (
            added({"nodeSelectorTerms": [term("In", 1)]}),
            (
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
                ".matchExpressions[0].values[0]: expected a string, got an integer; put it in quotes"
            ),
        ),
    ],
)
def test_objects_in_args_are_decoded_strictly(args: object, message: str) -> None:
    assert errors("NodeAffinity", args) == [message]


def test_strategy_that_code_leaves_out_is_required() -> None:
    (problem,) = NodeResourcesFitArgs(scoring_strategy=None).problems(DEFAULT_GATES)
    assert (problem.path, problem.message) == (
        ("scoringStrategy",),
        "Required value: ScoringStrategy field is required",
    )


def test_bad_args_of_a_fit_plugin_that_is_off_are_not_looked_at() -> None:
    off = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}, {"name": "InterPodAffinity"}]}}
    assert "NodeResourcesFit" not in decoded(document("NodeResourcesFit", strategy(type="x"), off))
    assert errors("NodeResourcesFit", strategy(typ="x"), off) == [
        "scoringStrategy.typ: unknown field \"typ\" (did you mean 'type'?)"
    ]
    assert errors("InterPodAffinity", {"hardPodAffinityWeight": 101}, off)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            {"kind": "InterPodAffinityArgs"},
            (
                "kind: args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io,"
                " got InterPodAffinityArgs.kubescheduler.config.k8s.io"
            ),
        ),
        (
            {"kind": "Pod", "apiVersion": "v1"},
            (
                'apiVersion: no kind "NodeAffinityArgs" is registered for version "v1";'
                " want kubescheduler.config.k8s.io/v1"
            ),
        ),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v2"},
            (
                'apiVersion: no kind "NodeAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v2";'
                " want kubescheduler.config.k8s.io/v1"
            ),
        ),
    ],
)
def test_wrong_kind_of_args_is_refused(header: object, message: str) -> None:
    assert errors("NodeAffinity", header) == [message]


@pytest.mark.parametrize("plugin", sorted(ARGS))
def test_snake_case_fields_are_refused(plugin: str) -> None:
    for name in ARGS[plugin].model_fields:
        if "_" in name:
            for value in (1, None):
                (message,) = errors(plugin, {name: value})
                assert message.startswith(f'{name}: unknown field "{name}" (did you mean ')


def test_shape_of_volumes_needs_its_gate() -> None:
    args = VolumeBindingArgs(shape=(UtilizationShapePoint(utilization=0, score=0),))
    (problem,) = args.problems(FeatureGates("1.36"))
    assert str(problem) == (
        'shape: Invalid value: [{"utilization":0,"score":0}]: unexpected field `shape`,'
        " remove it or turn on the feature gate StorageCapacityScoring"
    )
    assert list(args.problems(FeatureGates("1.36", {"StorageCapacityScoring": True}))) == []
