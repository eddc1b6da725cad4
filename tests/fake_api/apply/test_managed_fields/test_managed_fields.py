"""Managed fields in the form of objects."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.managed_fields import (
    APPLY,
    UPDATE,
    ManagedFields,
    Owner,
    cap_updaters,
    decode_fields,
    decode_managers,
    is_reset,
    with_managers,
)
from tests.fake_api.local_api import Json

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
    Owner("kubelet", UPDATE, "v1", "status"): ManagedFields("v1", decode_fields({"f:status": {"f:phase": {}}})),
    Owner("me", APPLY, ""): ManagedFields("v1", decode_fields({"f:data": {"f:a": {}}}), "2026-01-01T00:00:00Z"),
}


def test_managers_are_decoded_and_encoded() -> None:
    data: Json = {"metadata": {"name": "x", "managedFields": ENTRIES}}
    assert decode_managers(data) == MANAGERS
    assert with_managers({"metadata": {"name": "x"}}, MANAGERS) == data
    assert with_managers(data, {}) == {"metadata": {"name": "x"}}
    assert decode_managers({}) == {}


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
def test_invalid_managed_fields_are_an_error(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"managedFields|Expected|not a set"):
        decode_managers({"metadata": {"managedFields": wrong}})


@pytest.mark.parametrize(
    ("entries", "expected"), [([], True), ([{}], True), (None, False), ([{}, {}], False), (ENTRIES, False)]
)
def test_empty_list_resets_managed_fields(entries: object, expected: bool) -> None:
    assert is_reset({"metadata": {} if entries is None else {"managedFields": entries}}) == expected


def test_owner_is_formatted() -> None:
    assert str(Owner("kubectl", UPDATE, "apps/v1", "scale")) == '"kubectl" with subresource "scale" using apps/v1'
    assert str(Owner("me", APPLY, "")) == '"me"'


def test_oldest_of_too_many_updaters_are_merged() -> None:
    managers = {
        Owner(f"m{number:02}", UPDATE, "v1"): ManagedFields(
            "v1", decode_fields({f"f:{number:02}": {}}), f"t{number:02}"
        )
        for number in range(12)
    }
    applier = Owner("me", APPLY, "")
    managers[applier] = ManagedFields("v1", decode_fields({"f:x": {}}), "t00")
    left = cap_updaters(managers)
    assert [owner.manager for owner in sorted(left)] == ["ancient-changes", *(f"m{n:02}" for n in range(3, 12)), "me"]
    ancient = left[Owner("ancient-changes", UPDATE, "v1")]
    assert (ancient.fields, ancient.time) == (decode_fields({"f:00": {}, "f:01": {}, "f:02": {}}), "t02")
    assert cap_updaters(left) == left
