"""Rules see values as the schema describes them."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.cel.values import Duration, KeyedList, Timestamp
from kframework.fake_api.custom.rules.values import seen

TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"type": "number"}, 1, 1.0),
        ({"type": "integer"}, 1.0, 1),
        ({"type": "boolean"}, True, True),
        ({"x-kubernetes-int-or-string": True}, "50%", "50%"),
        (TEXT | {"format": "byte"}, "QUI=", b"AB"),
        (TEXT | {"format": "duration"}, "1m", Duration(60 * 10**9)),
        (TEXT | {"format": "date"}, "1970-01-02", Timestamp(86_400 * 10**9)),
        (TEXT | {"format": "date-time"}, "1970-01-01T01:00:00+01:00", Timestamp(0)),
        ({"type": "object", "properties": {"a-b": TEXT, "c": TEXT}}, {"a-b": "x", "c": None}, {"a__dash__b": "x"}),
        ({"type": "object", "properties": {"if": TEXT}}, {"if": "x"}, {"__if__": "x", "if": "x"}),
        ({"type": "object", "properties": {}}, {"else where": 1}, {"else where": 1}),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a-b": 1}, {"a-b": 1.0}),
        ({"type": "array", "items": {"type": "number"}}, [1, 2], [1.0, 2.0]),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"a-b": [1]}, {"a__dash__b": [1]}),
    ],
)
def test_values(schema: dict[str, Any], value: object, found: object) -> None:
    assert repr(seen(schema, value)) == repr(found) or seen(schema, value) == found


def test_lists_are_sets_or_maps_where_the_schema_says_so() -> None:
    items = {"type": "object", "properties": {"host-port": {"type": "integer"}}}
    as_set = seen({"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, ["a"])
    as_map = seen(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["host-port"],
            "items": items,
        },
        [{"host-port": 1}],
    )
    assert isinstance(as_set, KeyedList) and as_set.keys == ()
    assert isinstance(as_map, KeyedList) and as_map.keys == ("host__dash__port",)
