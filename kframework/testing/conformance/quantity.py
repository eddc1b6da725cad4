"""Kind `quantity`: reading, comparing and adding resource quantities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kframework.objects import ApiStruct
from kframework.objects.quantity import Quantity, QuantityError
from kframework.testing.conformance.facts import Fact, beside


class Given(ApiStruct, frozen=True, kw_only=True):
    """One quantity (`op` is `quantity`) or two (`quantityOp`), as text."""

    op: Literal["quantity", "quantityOp"]
    value: str = ""
    a: str = ""
    b: str = ""


def compare(given: Given, recorded: dict[str, object]) -> Iterator[Fact]:
    """Compare what a quantity is, or what two come to; of an error only the fact counts."""
    try:
        got = _of_one(given.value) if given.op == "quantity" else _of_two(given.a, given.b)
    except QuantityError as error:
        got = {"error": recorded.get("error", str(error))}
    left_out = {name for name, value in got.items() if name not in recorded and _may_be_left_out(value)}
    yield from beside(recorded, {name: value for name, value in got.items() if name not in left_out})


def _of_one(text: str) -> dict[str, object]:
    quantity = Quantity.parse(text)
    return {
        "canonical": str(quantity),
        "json": str(quantity),
        "format": quantity.format,
        "sign": quantity.sign,
        "value": quantity.value(),
        "milliValue": quantity.milli_value(),
    }


def _of_two(one: str, other: str) -> dict[str, object]:
    a, b = Quantity.parse(one), Quantity.parse(other)
    return {"cmp": a.cmp(b), "sum": str(a.add(b)), "difference": str(a.sub(b))}


def _may_be_left_out(value: object) -> bool:
    """Return whether this is an amount that may not fit in 64 bits: such are not recorded."""
    return isinstance(value, int) and abs(value) >= 2**63
