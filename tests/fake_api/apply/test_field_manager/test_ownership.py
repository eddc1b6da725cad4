"""Who owns what after a write, by rule and by a slow obvious model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.fake_api.apply.field_manager import Applied, allowed_by_last_applied, applied, updated
from kframework.fake_api.apply.managed_fields import (
    APPLY,
    UPDATE,
    Fields,
    Managed,
    Owner,
    Path,
    field,
    keyed,
    read,
    valued,
)
from kframework.fake_api.apply.shapes import ONE_VALUE, Elements, Shape, map_of
from kframework.fake_api.apply.shapes import Fields as FieldsShape
from tests.fake_api.serving import Json

ITEM = FieldsShape({"name": ONE_VALUE, "x": ONE_VALUE, "y": ONE_VALUE}.get)
SPEC: dict[str, Shape] = {
    "map": map_of(ONE_VALUE),
    "set": Elements(ONE_VALUE, (), {}),
    "list": Elements(ITEM, ("name",), {}),
    "one": ONE_VALUE,
}
SHAPE = FieldsShape({"spec": FieldsShape(SPEC.get), "metadata": map_of(ONE_VALUE)}.get)


class World(NamedTuple):
    """An object, and who owns what of it."""

    data: Json
    managers: dict[Owner, Managed]

    def apply(self, manager: str, config: Json) -> Applied:
        owner = Owner(manager, APPLY, "")
        return applied(SHAPE, self.data, config, self.managers, owner, version="v1", now="now")

    def applied(self, manager: str, **spec: object) -> World:
        result = self.apply(manager, {"spec": spec})
        return World(result.data, result.managers)

    def updated(self, manager: str, **spec: object) -> World:
        new: Json = {"spec": spec}
        owner = Owner(manager, UPDATE, "v1")
        return World(new, updated(SHAPE, self.data, new, self.managers, owner, version="v1", now="now"))

    @property
    def owned(self) -> dict[str, Fields]:
        return {owner.manager: managed.fields for owner, managed in self.managers.items()}


EMPTY = World({}, {})


def spec(**fields: object) -> Fields:
    return read({"f:spec": {f"f:{name}": below for name, below in fields.items()}})


def test_who_applies_owns_what_he_applies() -> None:
    world = EMPTY.applied("me", map={"a": 1}, one=[1])
    assert world == World(
        {"spec": {"map": {"a": 1}, "one": [1]}},
        {Owner("me", APPLY, ""): Managed("v1", spec(map={"f:a": {}}, one={}), "now")},
    )


def test_what_the_server_sets_belongs_to_nobody() -> None:
    said: Json = {"apiVersion": "v1", "metadata": {"name": "x", "labels": "y"}}
    assert EMPTY.apply("me", said).managers[Owner("me", APPLY, "")].fields == read({"f:metadata": {"f:labels": {}}})


def test_the_same_value_is_owned_by_both_and_no_change() -> None:
    world = EMPTY.applied("me", map={"a": 1}).applied("you", map={"a": 1})
    assert world.owned == dict.fromkeys(("me", "you"), spec(map={"f:a": {}}))
    assert world.managers[Owner("you", APPLY, "")].time == ""
    again = world.applied("me", map={"a": 1})
    assert again == world


def test_another_value_is_a_conflict_and_taken_by_force() -> None:
    result = EMPTY.applied("me", map={"a": 1, "b": 1}).apply("you", {"spec": {"map": {"a": 2}}})
    assert result.conflicts == {Owner("me", APPLY, ""): spec(map={"f:a": {}})}
    assert result.data == {"spec": {"map": {"a": 2, "b": 1}}}
    assert World({}, result.managers).owned == {"me": spec(map={"f:b": {}}), "you": spec(map={"f:a": {}})}


def test_an_update_takes_what_it_changes() -> None:
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
def test_what_is_no_longer_applied_goes_if_nobody_else_owns_it(before: Json, after: Json, left: Json) -> None:
    others = EMPTY.applied("other", map={"o": 1}, list=[{"name": "o", "x": 1}])
    assert others.applied("me", **before).applied("me", **after).data == {"spec": left}


def test_an_element_goes_with_what_others_have_below_it() -> None:
    world = EMPTY.applied("me", one=1, list=[{"name": "n", "x": 1}])
    world = world.updated("you", one=1, list=[{"name": "n", "x": 1, "y": 2}])
    assert world.applied("me", one=1, list=[]).data == {"spec": {"one": 1}}


def test_what_the_client_applied_may_be_changed_while_it_is_so() -> None:
    last: Json = {"spec": {"map": {"a": 1, "b": 1}}}
    live: Json = {"spec": {"map": {"a": 1, "b": 2, "c": 3}}}
    assert allowed_by_last_applied(SHAPE, last, live) == spec(map={"f:a": {}})


# -- a model: everything as paths with values, and sets of paths for everybody -------------------------------------

_SPEC = field("spec")
_NAMES = ("a", "b", "c")


def flat(data: Json) -> dict[Path, object]:
    said = data.get("spec", {})
    found: dict[Path, object] = {(_SPEC, field("map"), field(key)): item for key, item in said.get("map", {}).items()}
    found |= {(_SPEC, field("set"), valued(item)): True for item in said.get("set", [])}
    for item in said.get("list", []):
        element = (_SPEC, field("list"), keyed({"name": item["name"]}))
        found[element] = True
        found |= {(*element, field(name)): value for name, value in item.items()}
    return found


_Owned = dict[tuple[str, str], set[Path]]


def of_owners(found: Mapping[Owner, Fields]) -> _Owned:
    """Leave out fields that are there only because nothing is in them: of these the model does not know."""
    owned = {
        (owner.manager, owner.operation): {path for path in fields if len(path) > 2} for owner, fields in found.items()
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
def test_many_managers_in_turn(turns: Sequence[tuple[str, str, Json]]) -> None:
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
