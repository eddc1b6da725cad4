"""What is read from the text of the client's models is what the imported ones say."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from kubernetes_asyncio.client import models as imported

from kframework.client.models import Type, descriptions, fields, model_of, reached, required
from kframework.objects import KINDS, ApiObject, Kind

EVERY_MODEL = {name: model for name, model in vars(imported).items() if hasattr(model, "openapi_types")}

#: Types of models that the client leaves out.
NOT_THERE = {"IoK8sApimachineryPkgApisMetaV1GroupVersionKind"}

SIMPLE = {"str", "int", "bool", "float", "datetime", "object"}


def spelled(type: Type) -> str:
    match type.within:
        case ("list", *_):
            return f"list[{spelled(type.inner)}]"
        case ("map", *_):
            return f"dict(str, {spelled(type.inner)})"
    return type.name


def test_fields_and_types_are_those_of_the_models() -> None:
    assert len(EVERY_MODEL) > 700
    for name, model in EVERY_MODEL.items():
        types = {model.attribute_map[attribute]: kind for attribute, kind in model.openapi_types.items()}
        assert {field: spelled(type) for field, type in fields(name).items()} == types


def test_types_are_simple_or_models() -> None:
    for name in EVERY_MODEL:
        for type in fields(name).values():
            assert type.name in (EVERY_MODEL.keys() | NOT_THERE if type.is_model else SIMPLE), type


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("V1ServicePort", {"port"}),
        ("V1Container", {"name"}),
        ("V1DeploymentSpec", {"selector", "template"}),
        ("V1ObjectMeta", set()),
        ("V1Nonsense", set()),
    ],
)
def test_what_is_required(model: str, found: set[str]) -> None:
    assert required(model) == found


def test_every_field_is_described() -> None:
    for name in EVERY_MODEL:
        said = descriptions(name)
        assert said.keys() <= fields(name).keys()
        assert not any("noqa" in text for text in said.values())
    assert descriptions("V1Container")["image"].startswith("Container image name. More info: https://")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
def test_every_kind_has_a_model_with_the_fields_of_its_struct(kind: Kind[ApiObject]) -> None:
    model = model_of(kind.api_version, kind.name)
    assert model is not None
    assert {field.encode_name for field in msgspec.structs.fields(kind.struct)} <= fields(model).keys()


@pytest.mark.parametrize(
    ("api_version", "kind", "model"),
    [
        ("v1", "Event", "CoreV1Event"),
        ("events.k8s.io/v1", "Event", "EventsV1Event"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "V2HorizontalPodAutoscaler"),
        ("example.com/v1", "Pod", None),
        ("v1", "Nonsense", None),
    ],
)
def test_the_model_of_a_kind(api_version: str, kind: str, model: str | None) -> None:
    assert model_of(api_version, kind) == model


def test_models_within_models_are_reached_once() -> None:
    found = list(reached(["V1CustomResourceDefinition"]))
    assert len(found) == len(set(found))
    assert {"V1JSONSchemaProps", "V1ObjectMeta", "V1OwnerReference"} <= set(found)


def test_the_client_is_not_imported_for_it() -> None:
    code = (
        "import sys; from kframework.client.models import fields\n"
        "assert fields('V1Pod')\n"
        "assert 'kubernetes_asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
