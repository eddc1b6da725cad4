"""Managed fields as objects have them."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.managed_fields import (
    APPLY,
    UPDATE,
    Managed,
    Owner,
    are_reset,
    capped,
    managers_of,
    read,
    with_managers,
)
from tests.fake_api.serving import Json

ENTRIES: list[Json] = [
    {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    },
    {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:phase": {}}},
        "subresource": "status",
    },
]
MANAGERS = {
    Owner("kubelet", UPDATE, "v1", "status"): Managed("v1", read({"f:status": {"f:phase": {}}})),
    Owner("me", APPLY, ""): Managed("v1", read({"f:data": {"f:a": {}}}), "2026-01-01T00:00:00Z"),
}


def test_they_are_read_and_written() -> None:
    data: Json = {"metadata": {"name": "x", "managedFields": ENTRIES}}
    assert managers_of(data) == MANAGERS
    assert with_managers({"metadata": {"name": "x"}}, MANAGERS) == data
    assert with_managers(data, {}) == {"metadata": {"name": "x"}}
    assert managers_of({}) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        [{}],
        [ENTRIES[0] | {"operation": "Guess"}],
        [ENTRIES[0] | {"apiVersion": ""}],
        [ENTRIES[0] | {"fieldsType": "FieldsV2"}],
        [ENTRIES[0] | {"fieldsV1": {"f:a": 1}}],
    ],
)
def test_what_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"managedFields|Expected|not a set"):
        managers_of({"metadata": {"managedFields": wrong}})


@pytest.mark.parametrize(
    ("said", "is_reset"), [([], True), ([{}], True), (None, False), ([{}, {}], False), (ENTRIES, False)]
)
def test_an_empty_list_takes_them_all_away(said: object, is_reset: bool) -> None:
    assert are_reset({"metadata": {} if said is None else {"managedFields": said}}) == is_reset


def test_owners_in_words() -> None:
    assert str(Owner("kubectl", UPDATE, "apps/v1", "scale")) == '"kubectl" with subresource "scale" using apps/v1'
    assert str(Owner("me", APPLY, "")) == '"me"'


def test_the_oldest_of_too_many_become_one() -> None:
    managers = {
        Owner(f"m{number:02}", UPDATE, "v1"): Managed("v1", read({f"f:{number:02}": {}}), f"t{number:02}")
        for number in range(12)
    }
    applier = Owner("me", APPLY, "")
    managers[applier] = Managed("v1", read({"f:x": {}}), "t00")
    left = capped(managers)
    assert [owner.manager for owner in sorted(left)] == ["ancient-changes", *(f"m{n:02}" for n in range(3, 12)), "me"]
    ancient = left[Owner("ancient-changes", UPDATE, "v1")]
    assert (ancient.fields, ancient.time) == (read({"f:00": {}, "f:01": {}, "f:02": {}}), "t02")
    assert capped(left) == left
