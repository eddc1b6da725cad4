"""The kinds of Kubernetes' stable groups."""

from __future__ import annotations

import pytest

from kframework.fake_api.access import Role
from kframework.fake_api.resources import built_in_kinds
from kframework.objects import KINDS, kind_of
from kframework.objects.openapi.definitions import definition_of

BY_NAME = {(each.api_version, each.name): each for each in built_in_kinds()}


@pytest.mark.parametrize(
    ("api_version", "name", "plural", "short_names", "namespaced", "traits", "categories"),
    [
        ("v1", "ConfigMap", "configmaps", ("cm",), True, set(), ()),
        ("v1", "Namespace", "namespaces", ("ns",), False, {"cluster", "status", "finalize"}, ()),
        ("apps/v1", "Deployment", "deployments", ("deploy",), True, {"status", "scale"}, ("all",)),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            ("crd", "crds"),
            False,
            {"cluster", "status"},
            ("api-extensions",),
        ),
    ],
)
def test_built_in_kinds_have_names(
    api_version: str,
    name: str,
    plural: str,
    short_names: tuple[str, ...],
    namespaced: bool,
    traits: set[str],
    categories: tuple[str, ...],
) -> None:
    built = BY_NAME[api_version, name]
    assert (built.plural, built.short_names, set(built.traits)) == (plural, short_names, traits)
    assert built.categories == categories
    assert (built.kind.plural, built.kind.namespaced) == (plural, namespaced)


def test_registered_kinds_agree_with_built_in_ones() -> None:
    for kind in KINDS:
        built = BY_NAME[kind.api_version, kind.name]
        assert built.kind is kind
        assert (built.plural, "cluster" not in built.traits) == (kind.plural, kind.namespaced)


def test_registered_kind_is_used() -> None:
    assert BY_NAME["rbac.authorization.k8s.io/v1", "Role"].kind is kind_of(Role)


def test_all_built_in_kinds_are_in_the_openapi_document() -> None:
    assert [each.name for each in built_in_kinds() if definition_of(each.api_version, each.name) is None] == []
