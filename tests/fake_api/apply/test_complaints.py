"""What cannot be applied."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.complaints import complaints
from kframework.fake_api.apply.kind_shapes import shape_of
from kframework.fake_api.apply.shapes import ANY
from kframework.objects import Pod
from tests.fake_api.serving import Json, pod, served_as

NAMELESS = (
    ".spec.containers: element 0: associative list with keys has an element that omits all key fields"
    ' ["name"] (and doesn\'t have default values for any key fields)'
)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"nodeNam": "n"}, [".spec.nodeNam: field not declared in schema"]),
        (
            {"containers": [{"name": "c", "x": 1}]},
            ['.spec.containers[name="c"].x: field not declared in schema'],
        ),
        ({"containers": [{"name": "c"}] * 3}, ['.spec.containers: duplicate entries for key [name="c"]']),
        ({"containers": [{}]}, [NAMELESS]),
        (
            {"containers": ["c"]},
            [".spec.containers: element 0: associative list with keys may not have non-map elements"],
        ),
        ({"nodeSelector": {"any": "thing"}}, []),
    ],
)
def test_in_words(said: Json, complaint: list[str]) -> None:
    assert list(complaints(shape_of(served_as(Pod)), pod(**said))) == complaint


def test_of_what_has_no_type_everything_can_be_applied() -> None:
    assert list(complaints(ANY, {"a": [{"b": 1}, {"b": 1}]})) == []
