"""Requirements on labels as objects state them, drawn at random, and the obvious way to evaluate one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st


def expressions(*requirements: tuple[Any, ...]) -> list[dict[str, object]]:
    return [{"key": key, "operator": operator, "values": values} for key, operator, *values in requirements]


keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["", "0", "1", "07", "x"])
requirements = st.lists(
    st.one_of(
        st.tuples(keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3)),
        st.tuples(keys, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
        st.tuples(keys, st.sampled_from(["Gt", "Lt"]), st.sampled_from([["0"], ["1"], ["5"]])),
    ),
    min_size=1,
    max_size=4,
)
some_labels = st.dictionaries(keys, values)


def slowly(key: str, operator: str, wanted: list[str], labels: Mapping[str, str]) -> bool:
    """Evaluate a requirement the obvious way."""
    if operator in ("In", "NotIn"):
        return (key in labels and labels[key] in wanted) is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) is (operator == "Exists")
    if key not in labels or not labels[key].isdigit():
        return False
    number, bound = int(labels[key]), int(wanted[0])
    return number > bound if operator == "Gt" else number < bound
