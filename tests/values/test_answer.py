from __future__ import annotations

import msgspec

from kframework.capacity.nodes import RemovalPlan


def test_answer_begins_with_its_kind_and_version() -> None:
    text = msgspec.json.encode(RemovalPlan(nodes=("a",)))
    assert text.startswith(b'{"kind":"RemovalPlan","apiVersion":"kframework.dev/v1","nodes":')
    assert msgspec.json.decode(text, type=RemovalPlan) == RemovalPlan(nodes=("a",))
