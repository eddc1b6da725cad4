"""All that is served."""

from __future__ import annotations

import pytest

from kframework.apiserver.catalogue import Catalogue
from kframework.clock import SystemClock
from kframework.cluster.memory import MemoryCluster
from kframework.objects import ApiObject, Pod, all_kinds, kinds


def test_every_known_kind_is_served() -> None:
    catalogue = Catalogue(MemoryCluster(SystemClock()))
    for kind in all_kinds():
        found = catalogue.find(kind.api_version, kind.plural)
        assert found is not None
        assert found.kind is kind
    assert catalogue.find("v1", "nonsense") is None
    assert catalogue.find("v2", "pods") is None


@pytest.mark.parametrize("plural", ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"])
def test_what_schedulers_insist_on(plural: str) -> None:
    assert Catalogue(MemoryCluster(SystemClock())).find("resource.k8s.io/v1", plural) is not None


def test_a_kind_that_is_declared_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_BY_NAME", dict(kinds._BY_NAME))
    monkeypatch.setattr(kinds, "_BY_STRUCT", dict(kinds._BY_STRUCT))
    catalogue = Catalogue(MemoryCluster(SystemClock()))
    assert catalogue.find("example.dev/v1", "gadgets") is None

    @kinds.kind("example.dev/v1", "gadgets")
    class Gadget(ApiObject, frozen=True, kw_only=True):
        pass

    found = catalogue.find("example.dev/v1", "gadgets")
    assert found is not None
    assert found.stored.struct is Gadget


def test_a_plugin_that_reads_a_kind_goes_before_one_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_BY_NAME", dict(kinds._BY_NAME))
    monkeypatch.setattr(kinds, "_BY_STRUCT", dict(kinds._BY_STRUCT))

    @kinds.kind("resource.k8s.io/v1", "resourceslices", namespaced=False)
    class ResourceSlice(ApiObject, frozen=True, kw_only=True):
        pass

    catalogue = Catalogue(MemoryCluster(SystemClock()))
    found = catalogue.find("resource.k8s.io/v1", "resourceslices")
    assert found is not None
    assert found.stored.struct is ResourceSlice


def test_nothing_is_served_twice() -> None:
    served = Catalogue(MemoryCluster(SystemClock())).resources()
    names = [(each.kind.api_version, each.kind.plural) for each in served]
    assert len(names) == len(set(names))
    assert next(each for each in served if each.kind.plural == "pods").stored.struct is Pod
