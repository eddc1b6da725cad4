from __future__ import annotations

import pytest

from kframework.cel.library.semver import Semver
from kframework.plugins.dynamic_resources.device_selectors import CelDevice
from tests.plugins.dynamic_resources.selecting import DEVICE, answer


def test_attributes_are_by_domain_the_drivers_where_none_is_named() -> None:
    assert DEVICE.failure is None
    assert DEVICE.variables["device"]["attributes"] == {
        "gpu.example.com": {"model": "a100", "index": 3, "healthy": True, "version": Semver.parse("1.10.3")},
        "other.org": {"vendor": "acme"},
    }
    assert DEVICE.variables["device"]["capacity"]["gpu.example.com"]["memory"].nano == 40 * 2**30 * 10**9


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ({}, "attribute tags: unsupported attribute value"),
        ({"version": "1.2"}, "attribute tags: parse semantic version: No Major.Minor.Patch elements found"),
        ({"versions": ["1.2.3", "1"]}, "attribute tags: parse semantic version: No Major.Minor.Patch elements found"),
    ],
)
def test_attribute_that_cannot_be_read_fails_every_selector(attribute: dict[str, object], problem: str) -> None:
    device = CelDevice("gpu.example.com", {"tags": attribute}, {}, False)
    assert answer("true", device) == f"run: {problem}"


def test_so_does_a_capacity() -> None:
    assert str(answer("true", CelDevice("a", {}, {"memory": "much"}, False))).startswith("run: quantities must match")


def test_value_of_the_first_kind_that_is_there_counts() -> None:
    device = CelDevice("a", {"x": {"int": None, "bool": False, "string": None}}, {}, False)
    assert answer("device.attributes['a'].x == false", device) is True


@pytest.mark.parametrize("attribute", [{"strings": ["a"]}, {"ints": [1]}, {"bools": [True]}, {"versions": ["1.2.3"]}])
def test_attribute_with_a_list_is_a_list(attribute: dict[str, object]) -> None:
    device = CelDevice("a", {"tags": attribute}, {}, False)
    assert device.list_attribute == "tags"
    assert answer("device.attributes['a'].tags.size() == 1", device) is True
