"""What a name means that several groups have for a resource of theirs."""

from __future__ import annotations

import pytest

from kframework.fake_api.group_order import in_order
from kframework.fake_api.served import Resource
from kframework.objects.kinds import foreign_kind


def resource(api_version: str, plural: str) -> Resource:
    kind = foreign_kind(api_version, plural.title(), plural, namespaced=True)
    return Resource(kind, kind, plural)


SERVED = (
    resource("v1", "gangs"),
    resource("a.dev/v1alpha1", "gangs"),
    resource("a.dev/v1", "teams"),
    resource("b.dev/v1beta1", "gangs"),
    resource("c.dev/v1alpha1", "gangs"),
    resource("z.dev/v1alpha1", "others"),
)


@pytest.mark.parametrize(
    ("filled", "expected"),
    [
        ((), "z.dev b.dev a.dev c.dev"),  # the more stable one first, and one that nobody contests anywhere
        (("a.dev/v1alpha1",), "z.dev a.dev b.dev c.dev"),
        (("c.dev/v1alpha1",), "z.dev c.dev b.dev a.dev"),
        (("b.dev/v1beta1", "c.dev/v1alpha1"), "z.dev b.dev c.dev a.dev"),
        (("a.dev/v1",), "z.dev b.dev a.dev c.dev"),  # there is but one sort of teams
    ],
)
def test_what_has_objects_comes_first_then_what_is_stable(filled: tuple[str, ...], expected: str) -> None:
    ordered = in_order(SERVED, lambda each: each.kind.api_version in filled)
    groups = list(dict.fromkeys(each.group for each in ordered if each.group))
    assert " ".join(groups) == expected
    assert sorted(map(str, ordered)) == sorted(map(str, SERVED))


def test_a_group_stands_together_by_version_and_name() -> None:
    ordered = in_order(
        [resource("d.dev/v2", "b"), resource("e.dev/v1", "c"), resource("d.dev/v1", "a")], lambda _: False
    )
    assert [each.kind.api_version for each in ordered] == ["d.dev/v1", "d.dev/v2", "e.dev/v1"]
