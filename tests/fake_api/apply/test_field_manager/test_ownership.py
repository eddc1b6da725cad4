"""Who owns what after a write, by rule and by a slow obvious model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.fake_api.apply.field_manager import (
    ApplyResult,
    apply_configuration,
    managers_after_update,
    unchanged_since_last_applied,
)
from kframework.fake_api.apply.managed_fields import (
    APPLY,
    UPDATE,
    Fields,
    ManagedFields,
    Owner,
    Path,
    decode_fields,
    field_element,
    key_element,
    value_element,
)
from kframework.fake_api.apply.shapes import ATOMIC, ListShape, MergeShape, StructShape, map_shape
from tests.fake_api.local_api import Json

ITEM = StructShape({"name": ATOMIC, "x": ATOMIC, "y": ATOMIC}.get)
SPEC: dict[str, MergeShape] = {
    "map": map_shape(ATOMIC),
    "set": ListShape(ATOMIC, (), {}),
    "list": ListShape(ITEM, ("name",), {}),
    "one": ATOMIC,
}
SHAPE = StructShape({"spec": StructShape(SPEC.get), "metadata": map_shape(ATOMIC)}.get)


class World(NamedTuple):
    """An object, and who owns what of it."""

    data: Json
    managers: dict[Owner, ManagedFields]

    def apply(self, manager: str, config: Json) -> ApplyResult:
        owner = Owner(manager, APPLY, "")
        return apply_configuration(SHAPE, self.data, config, self.managers, owner, version="v1", now="now")

    def applied(self, manager: str, **spec: object) -> World:
        result = self.apply(manager, {"spec": spec})
        return World(result.data, result.managers)

    def updated(self, manager: str, **spec: object) -> World:
        new: Json = {"spec": spec}
        owner = Owner(manager, UPDATE, "v1")
        return World(new, managers_after_update(SHAPE, self.data, new, self.managers, owner, version="v1", now="now"))

    @property
    def owned(self) -> dict[str, Fields]:
        return {owner.manager: managed.fields for owner, managed in self.managers.items()}


EMPTY = World({}, {})


def spec(**fields: object) -> Fields:
    return decode_fields({"f:spec": {f"f:{name}": below for name, below in fields.items()}})


def test_applier_owns_the_applied_fields() -> None:
    world = EMPTY.applied("me", map={"a": 1}, one=[1])
    assert world == World(
        {"spec": {"map": {"a": 1}, "one": [1]}},
        {Owner("me", APPLY, ""): ManagedFields("v1", spec(map={"f:a": {}}, one={}), "now")},
    )


def test_server_fields_have_no_owner() -> None:
    said: Json = {"apiVersion": "v1", "metadata": {"name": "x", "labels": "y"}}
    assert EMPTY.apply("me", said).managers[Owner("me", APPLY, "")].fields == decode_fields(
        {"f:metadata": {"f:labels": {}}}
    )


def test_applying_the_same_value_shares_its_ownership() -> None:
    world = EMPTY.applied("me", map={"a": 1}).applied("you", map={"a": 1})
    assert world.owned == dict.fromkeys(("me", "you"), spec(map={"f:a": {}}))
    assert world.managers[Owner("you", APPLY, "")].time == ""
    again = world.applied("me", map={"a": 1})
    assert again == world


def test_another_value_is_a_conflict_unless_forced() -> None:
    result = EMPTY.applied("me", map={"a": 1, "b": 1}).apply("you", {"spec": {"map": {"a": 2}}})
    assert result.conflicts == {Owner("me", APPLY, ""): spec(map={"f:a": {}})}
    assert result.data == {"spec": {"map": {"a": 2, "b": 1}}}
    assert World({}, result.managers).owned == {"me": spec(map={"f:b": {}}), "you": spec(map={"f:a": {}})}


def test_update_owns_the_fields_it_changes() -> None:
    world = EMPTY.applied("me", map={"a": 1, "b": 1}).updated("you", map={"a": 2})
    assert world.owned == {"you": spec(map={"f:a": {}})}
    assert world.updated("third", map={"a": 2}) == world
    again = world.updated("you", map={"a": 2, "c": 3})
    assert again.owned == {"you": spec(map={"f:a": {}, "f:c": {}})}


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({"map": {"a": 1, "b": 1}}, {"map": {"a": 1}}, {"map": {"a": 1, "o": 1}, "list": [{"name": "o", "x": 1}]}),
        ({"map": {"a": 1}}, {"one": 1}, {"map": {"o": 1}, "list": [{"name": "o", "x": 1}], "one": 1}),
        ({"one": {"a": 1}}, {}, {"map": {"o": 1}, "list": [{"name": "o", "x": 1}]}),
        ({"set": ["a", "b"]}, {"set": ["b"]}, {"map": {"o": 1}, "list": [{"name": "o", "x": 1}], "set": ["b"]}),
        ({"list": [{"name": "o", "y": 1}]}, {"list": []}, {"map": {"o": 1}, "list": [{"name": "o", "x": 1}]}),
        (
            {"list": [{"name": "n", "x": 1, "y": 1}]},
            {"list": [{"name": "n", "x": 1}]},
            {"map": {"o": 1}, "list": [{"name": "o", "x": 1}, {"name": "n", "x": 1}]},
        ),
        ({"list": [{"name": "n", "x": 1}]}, {}, {"map": {"o": 1}, "list": [{"name": "o", "x": 1}]}),
    ],
)
def test_field_no_longer_applied_is_removed_unless_owned(before: Json, after: Json, left: Json) -> None:
    others = EMPTY.applied("other", map={"o": 1}, list=[{"name": "o", "x": 1}])
    assert others.applied("me", **before).applied("me", **after).data == {"spec": left}


def test_removed_element_removes_fields_of_other_owners() -> None:
    world = EMPTY.applied("me", one=1, list=[{"name": "n", "x": 1}])
    world = world.updated("you", one=1, list=[{"name": "n", "x": 1, "y": 2}])
    assert world.applied("me", one=1, list=[]).data == {"spec": {"one": 1}}


def test_unchanged_client_side_apply_is_no_conflict() -> None:
    last: Json = {"spec": {"map": {"a": 1, "b": 1}}}
    live: Json = {"spec": {"map": {"a": 1, "b": 2, "c": 3}}}
    assert unchanged_since_last_applied(SHAPE, last, live) == spec(map={"f:a": {}})


# -- a model: everything as paths with values, and sets of paths for everybody -------------------------------------

_SPEC = field_element("spec")
_NAMES = ("a", "b", "c")


def flat(data: Json) -> dict[Path, object]:
    said = data.get("spec", {})
    actual: dict[Path, object] = {
        (_SPEC, field_element("map"), field_element(key)): item for key, item in said.get("map", {}).items()
    }
    actual |= {(_SPEC, field_element("set"), value_element(item)): True for item in said.get("set", [])}
    for item in said.get("list", []):
        element = (_SPEC, field_element("list"), key_element({"name": item["name"]}))
        actual[element] = True
        actual |= {(*element, field_element(name)): value for name, value in item.items()}
    return actual


_Owned = dict[tuple[str, str], set[Path]]


def of_owners(actual: Mapping[Owner, Fields]) -> _Owned:
    """Leave out fields that are there only because nothing is in them: of these the model does not know."""
    owned = {
        (owner.manager, owner.operation): {path for path in fields if len(path) > 2} for owner, fields in actual.items()
    }
    return {owner: paths for owner, paths in owned.items() if paths}


class Model:
    """The same rules on paths."""

    def __init__(self) -> None:
        self.values: dict[Path, object] = {}
        self.owned: _Owned = {}

    def conflicts(self, manager: str, config: dict[Path, object]) -> _Owned:
        changed = {path for path, value in config.items() if self.values.get(path, value) != value}
        others = {owner: changed & paths for owner, paths in self.owned.items() if owner != (manager, APPLY)}
        return {owner: paths for owner, paths in others.items() if paths}

    def apply(self, manager: str, config: dict[Path, object]) -> None:
        last = self.owned.pop((manager, APPLY), set())
        owned = {path for paths in self.owned.values() for path in paths}
        changed = {path for path, value in config.items() if self.values.get(path) != value}
        self.values |= config
        for path in last - set(config) - owned:
            for below in [each for each in self.values if each[: len(path)] == path]:
                del self.values[below]
        self._left_to_others(changed)
        self.owned[manager, APPLY] = set(config)
        self.owned = {owner: paths for owner, paths in self.owned.items() if paths}

    def update(self, manager: str, new: dict[Path, object]) -> None:
        changed = {path for path, value in new.items() if self.values.get(path) != value}
        self.values = dict(new)
        self._left_to_others(changed)
        self.owned[manager, UPDATE] = self.owned.get((manager, UPDATE), set()) | changed
        self.owned = {owner: paths for owner, paths in self.owned.items() if paths}

    def _left_to_others(self, changed: set[Path]) -> None:
        for paths in self.owned.values():
            paths &= self.values.keys() - changed


def _name(item: Any) -> str:
    return str(item["name"])


keys, numbers = st.sampled_from(_NAMES), st.integers(1, 2)
items = st.fixed_dictionaries({"name": keys}, optional={"x": numbers, "y": numbers})
specs = st.fixed_dictionaries(
    {},
    optional={
        "map": st.dictionaries(keys, numbers),
        "set": st.lists(keys, unique=True),
        "list": st.lists(items, unique_by=_name),
    },
)
writes = st.lists(
    st.tuples(st.sampled_from(["apply", "force", "update"]), st.sampled_from(["me", "you", "them"]), specs)
)


@given(writes)
def test_ownership_matches_the_model_for_many_managers(turns: Sequence[tuple[str, str, Json]]) -> None:
    world, model = EMPTY, Model()
    for kind, manager, said in turns:
        config = flat({"spec": said})
        if kind == "update":
            world = world.updated(manager, **said)
            model.update(manager, config)
        else:
            result = world.apply(manager, {"spec": said})
            conflicts = of_owners(result.conflicts)
            assert conflicts == model.conflicts(manager, config)
            if not conflicts or kind == "force":
                model.apply(manager, config)
                world = World(result.data, result.managers)
        assert flat(world.data) == model.values
        assert of_owners({owner: managed.fields for owner, managed in world.managers.items()}) == model.owned
