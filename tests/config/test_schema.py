"""The JSON Schema of configurations: it takes what the loader takes, and refuses what is refused for its shape."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from kframework import Plugin, PluginArgs
from kframework.config import configuration
from kframework.config import models as blocks_of_the_file
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.document import parse_documents
from kframework.config.load import default_configuration
from kframework.config.schema import configuration_schema
from kframework.config.show import effective_yaml
from kframework.core.runtime.registry import load_in_tree_args
from kframework.plugins import shared_args
from kframework.plugins.node_resources_fit import args as fit
from tests.docs.blocks import blocks
from tests.examples.clean_environment import ROOT
from tests.support.schemas import disagreement, loader_errors, schema_errors, schema_of_all

KINDS = ("KubeSchedulerConfiguration", "KFrameworkConfiguration")
PLACES = ("deploy", "examples", "contrib_plugins")

#: Every block and every field with a rule of its own, beside what the default configuration shows.
FULL: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 3,
    "leaderElection": {"leaderElect": True, "leaseDuration": "15s", "resourceLock": "leases"},
    "clientConnection": {"qps": 7, "burst": 8},
    "extenders": [
        {
            "urlPrefix": "http://localhost",
            "filterVerb": "filter",
            "weight": 2,
            "httpTimeout": "1m30s",
            "tlsConfig": {"insecure": True, "certData": "YQ=="},
            "managedResources": [{"name": "example.com/a"}],
        }
    ],
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "percentageOfNodesToScore": 50,
            "plugins": {
                "multiPoint": {"enabled": [{"name": "FewestPods", "weight": 3}], "disabled": [{"name": "NodePorts"}]}
            },
            "pluginConfig": [
                {"name": "FewestPods", "args": {"maxPodsPerNode": 5}},
                {
                    "name": "NodeAffinity",
                    "args": {
                        "kind": "NodeAffinityArgs",
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                                ]
                            }
                        },
                    },
                },
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "ignoredResources": ["example.com/a"],
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}]},
                        },
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    },
                },
                {"name": "DynamicResources", "args": {"filterTimeout": "0s"}},
                {"name": "InterPodAffinity"},
            ],
        }
    ],
}
OPTIONS: dict[str, Any] = {
    "apiVersion": "kframework.dev/v1",
    "kind": "KFrameworkConfiguration",
    "seed": 1,
    "layerMemory": "1Mi",
    "tracing": {"exporter": "otlp", "endpoint": "http://localhost", "samplingRatePerMillion": 5},
    "podMaxInUnschedulablePodsDuration": "5m",
    "preemptOtherSchedulersPods": False,
    "countDownDisruptionBudgets": False,
    "reportGatedPods": True,
    "gangBindingTimeout": "1m",
    "hookTimeouts": {"start": "3s"},
}

#: Words of Python and of its libraries, which no message may have.
TECHNICAL = re.compile(r"Input should|Expected `|\b(str|int|dict|bool|NoneType|BaseModel|Errno)\b")

#: What is put in the place of every value in turn.
VALUES: tuple[Any, ...] = ("text", "", 1, -1, 0, 10**6, 1.5, True, None, [], {}, [None], ["x"], [{}], {"a": 1})


def test_schema_is_one_of_the_draft_that_it_names() -> None:
    Draft202012Validator.check_schema(schema_of_all())
    assert schema_of_all()["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def written() -> Iterator[tuple[str, str]]:
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.yaml")):
            yield str(path.relative_to(ROOT)), path.read_text()
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/README.md")]):
        for block in blocks(path.read_text()):
            if block.language == "yaml":
                yield f"{path.relative_to(ROOT)}:{block.line}", block.text


def test_every_configuration_of_the_repository_is_valid() -> None:
    found = {}
    for place, text in written():
        for index, document in enumerate(parse_documents(text, place)):
            if isinstance(document.data, dict) and document.data.get("kind") in KINDS:
                found[place, index] = schema_errors(document.data)
    assert {place: errors for place, errors in found.items() if errors} == {}
    assert {"deploy/config.yaml", "examples/configs/demo.yaml"} <= {place for place, _ in found}
    assert len(found) > 5


def test_output_of_show_is_valid() -> None:
    default = default_configuration()
    for document in parse_documents(effective_yaml(default, load_in_tree_args(default)), None):
        assert schema_errors(document.data) == []


@pytest.mark.parametrize("document", [pytest.param(FULL, marks=pytest.mark.long), OPTIONS], ids=["full", "own"])
def test_loader_and_schema_agree_on_every_change(document: dict[str, Any]) -> None:
    assert schema_errors(document) == loader_errors(document) == []
    told = {}
    for change, changed in changes(document):
        errors = loader_errors(changed)
        if said := disagreement(errors, schema_errors(changed)):
            told[change] = said
        if technical := [each for each in errors if TECHNICAL.search(each)]:
            told[change] = technical[0]
    assert told == {}


def changes(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Drop every value in turn, put another one in its place, and add a field to every mapping."""
    for path in paths(document):
        outer, step = path[:-1], path[-1]
        for value in VALUES:
            changed = copy.deepcopy(document)
            at(changed, outer)[step] = value
            yield f"{path} = {value!r}", changed
        changed = copy.deepcopy(document)
        del at(changed, outer)[step]
        yield f"no {path}", changed
        if isinstance(at(document, path), dict):
            changed = copy.deepcopy(document)
            at(changed, path)["unknownField"] = 1
            yield f"more at {path}", changed


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for step in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from paths(value[step], (*path, step))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def test_every_field_is_described() -> None:
    models = schema_of_all()["$defs"]
    blocks = {name for module in (blocks_of_the_file, configuration, fit, shared_args) for name in vars(module)}
    own = blocks | IN_TREE_PLUGINS
    fields = {
        (name, field): each for name, model in models.items() for field, each in model.get("properties", {}).items()
    }
    args = {
        (case["if"]["properties"]["name"]["const"], field): each
        for case in models["PluginConfigEntry"]["allOf"]
        for field, each in case["then"]["properties"]["args"].get("properties", {}).items()
    }
    ours = {key: each for key, each in (fields | args).items() if key[0] in own}
    assert [key for key, each in ours.items() if not each.get("description") and "$ref" not in each] == []


class Inner(BaseModel):
    most: int = 1


class OddArgs(PluginArgs):
    """Args with all that is difficult."""

    needed_here: int
    """What is needed."""
    inner: Inner = Inner()
    only_python: type = int
    again: tuple[OddArgs, ...] = ()


class Odd(Plugin[OddArgs]):
    """Do odd things."""

    name: ClassVar[str] = "Odd"


@pytest.fixture(name="odd", scope="module")
def schema_with_odd_args() -> dict[str, Any]:
    schema = configuration_schema({"Odd": Odd})
    Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize(
    ("entry", "valid"),
    [
        ({"name": "Odd", "args": {"neededHere": 1, "inner": {"most": 2}}}, True),
        ({"name": "Odd", "args": {"neededHere": 1, "onlyPython": 3, "kind": "OddArgs"}}, True),
        ({"name": "Odd", "args": {"neededHere": 1, "again": [{"neededHere": 1}]}}, True),
        ({"name": "Odd", "args": {"neededHere": 1, "again": [{}]}}, False),
        ({"name": "Odd", "args": {"needed_here": 1}}, False),
        ({"name": "Odd", "args": {"neededHere": 1, "inner": {"mst": 2}}}, False),
        ({"name": "Odd", "args": {"neededHere": 1, "kind": "EvenArgs"}}, False),
        ({"name": "Odd", "args": {}}, False),
        ({"name": "Odd"}, False),
        ({"name": "Unknown", "args": {"anything": 1}}, True),
    ],
)
def test_args_are_those_of_the_plugin_that_an_entry_names(odd: dict[str, Any], entry: object, valid: bool) -> None:
    document = {**FULL, "profiles": [{"pluginConfig": [entry]}]}
    assert Draft202012Validator(odd).is_valid(document) is valid


def test_docstring_below_a_field_is_its_description(odd: dict[str, Any]) -> None:
    entries = odd["$defs"]["PluginConfigEntry"]
    (args,) = [case["then"]["properties"]["args"] for case in entries["allOf"] if "Odd" in str(case["if"])]
    assert args["properties"]["neededHere"]["description"] == "What is needed."
