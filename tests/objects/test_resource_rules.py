"""Resources have names that Kubernetes knows, and amounts that can be had."""

from __future__ import annotations

import msgspec
import pytest

from kframework.objects.pod import Resources
from kframework.objects.resource_rules import missing_resources_problems, name_messages, parse


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        *((name, True) for name in ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu")),
        *((name, True) for name in ("kubernetes.io/batch", "attachable.example.com/volumes")),
        *((name, False) for name in ("cpus", "mem", "pods", "storage", "", "a b", "requests.example.com/gpu", "/gpu")),
    ],
)
def test_resource_of_a_container_is_standard_or_extended(name: str, is_valid: bool) -> None:
    assert (not name_messages(name)) == is_valid


@pytest.mark.parametrize(
    ("requests", "limits", "problems"),
    [
        ({"cpu": "1"}, {}, []),
        ({"example.com/gpu": "1"}, {"example.com/gpu": "1"}, []),
        ({"example.com/gpu": "1"}, {}, ["limits: Required value: Limit must be set for non overcommitable resources"]),
        ({}, {"hugepages-2Mi": "2Mi"}, [": Forbidden: HugePages require cpu or memory"]),
        ({"cpu": "1"}, {"hugepages-2Mi": "2Mi"}, []),
    ],
)
def test_missing_resources_are_found(requests: dict[str, str], limits: dict[str, str], problems: list[str]) -> None:
    resources = msgspec.convert({"requests": requests, "limits": limits}, Resources)
    assert [str(each) for each in missing_resources_problems(resources)] == problems


def test_text_that_is_no_quantity_is_not_judged() -> None:
    assert parse("lots") is parse(None) is None
