"""Quantities: reading, writing, comparing and adding, exact to the nano."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects.quantity import Quantity, QuantityError, milli, nano, parse_amounts, value

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "e3": Fraction(10**3),
    "E-3": Fraction(1, 1000),
    "e+2": Fraction(100),
}


@pytest.mark.parametrize(
    ("text", "canonical", "format", "whole", "thousandths"),
    [
        ("0", "0", "DecimalSI", 0, 0),
        ("1", "1", "DecimalSI", 1, 1000),
        ("1000", "1k", "DecimalSI", 1000, 1_000_000),
        ("0.5", "500m", "DecimalSI", 1, 500),
        ("2.5", "2500m", "DecimalSI", 3, 2500),
        ("100m", "100m", "DecimalSI", 1, 100),
        ("1n", "1n", "DecimalSI", 1, 1),
        ("0.1n", "1n", "DecimalSI", 1, 1),
        ("9.1n", "10n", "DecimalSI", 1, 1),
        ("1Gi", "1Gi", "BinarySI", 2**30, 1000 * 2**30),
        ("1024Ki", "1Mi", "BinarySI", 2**20, 1000 * 2**20),
        ("1.5Gi", "1536Mi", "BinarySI", 3 * 2**29, 1500 * 2**30),
        ("0.5Ki", "512", "BinarySI", 512, 512_000),
        ("0.3Gi", "322122547200m", "BinarySI", 322122548, 322122547200),
        ("0.0001Ki", "102400u", "DecimalSI", 1, 103),
        ("9Ei", "9223372036854775807", "BinarySI", 2**63 - 1, 1000 * (2**63 - 1)),
        ("10E", "10E", "DecimalSI", 10**19, 10**22),
        ("1000E", "1000E", "DecimalSI", 10**21, 10**24),
        ("1e3", "1e3", "DecimalExponent", 1000, 1_000_000),
        ("1.5e3", "1500", "DecimalExponent", 1500, 1_500_000),
        ("1e-10", "1e-9", "DecimalExponent", 1, 1),
        ("1e19", "10e18", "DecimalExponent", 10**19, 10**22),
        ("Ki", "0", "BinarySI", 0, 0),
        (".", "0", "DecimalSI", 0, 0),
        ("-1.5Gi", "-1536Mi", "BinarySI", -3 * 2**29, -1500 * 2**30),
    ],
)
def test_parsing_gives_the_value(text: str, canonical: str, format: str, whole: int, thousandths: int) -> None:
    quantity = Quantity.parse(text)
    assert (str(quantity), quantity.format) == (canonical, format)
    assert (quantity.value(), quantity.milli_value()) == (whole, thousandths)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1K",
        "1ki",
        "1kb",
        "1mi",
        "1e",
        "1.2.3",
        "1,5",
        "0x10",
        "NaN",
        "inf",
        "1e1.5",
        "--1",
        "e-10",
        "١",
    ],
)
def test_bad_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["1e5000", "1e99999999999", "9" * 5000])
def test_oversized_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


def test_tiny_exponent_costs_nothing() -> None:
    assert Quantity.parse("1e-99999999999").nano == 1


def test_equal_amounts_are_equal() -> None:
    assert Quantity.parse("1000m") == Quantity.parse("1")
    assert len({Quantity.parse("1Ki"), Quantity.parse("1024")}) == 1
    assert Quantity.parse("1") != 1


@pytest.mark.parametrize(
    ("raw", "thousandths", "whole"),
    [
        ("250m", 250, 1),
        (2, 2000, 2),
        (0.5, 500, 1),
        (1e-05, 1, 1),
        (1e16, 10**19, 10**16),
        (" 1Gi ", 1000 * 2**30, 2**30),
    ],
)
def test_raw_values_of_objects(raw: str | int | float, thousandths: int, whole: int) -> None:
    assert (milli(raw), value(raw)) == (thousandths, whole)
    assert parse_amounts({"cpu": raw, "memory": raw}) == {"cpu": thousandths, "memory": whole}


numbers = st.from_regex(r"[+-]?[0-9]{1,12}(\.[0-9]{0,12})?", fullmatch=True)
texts = st.tuples(numbers, st.sampled_from(sorted(SUFFIXES)))


def slowly(number: str, suffix: str) -> Fraction:
    """Read a quantity the obvious way."""
    exact = Fraction(number.rstrip(".")) * SUFFIXES[suffix] * 10**9
    away_from_zero = -(-abs(exact) // 1)
    if suffix.endswith("i"):
        away_from_zero = min(away_from_zero, (2**63 - 1) * 10**9)
    return Fraction(away_from_zero if exact >= 0 else -away_from_zero, 10**9)


@pytest.mark.slow
@given(texts)
def test_reading_is_exact(parts: tuple[str, str]) -> None:
    assert Fraction(nano("".join(parts)), 10**9) == slowly(*parts)


@given(texts)
def test_written_quantity_reads_the_same(parts: tuple[str, str]) -> None:
    quantity = Quantity.parse("".join(parts))
    assert Quantity.parse(str(quantity)) == quantity
    assert Quantity.parse(str(quantity.add(Quantity.parse("0")))) == quantity


@given(texts, texts)
def test_sums_are_exact(a: tuple[str, str], b: tuple[str, str]) -> None:
    one, other = Quantity.parse("".join(a)), Quantity.parse("".join(b))
    assert Fraction(one.add(other).nano, 10**9) == slowly(*a) + slowly(*b)
    assert Fraction(one.sub(other).nano, 10**9) == slowly(*a) - slowly(*b)
    assert one.cmp(other) == (slowly(*a) > slowly(*b)) - (slowly(*a) < slowly(*b))


@given(texts)
def test_rounding_is_up(parts: tuple[str, str]) -> None:
    quantity, exact = Quantity.parse("".join(parts)), slowly(*parts)
    if exact >= 0:
        assert (quantity.value(), quantity.milli_value()) == (-(-exact // 1), -(-exact * 1000 // 1))
