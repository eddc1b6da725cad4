from __future__ import annotations

import pytest

from kframework.cel import costs
from kframework.cel.library.ip import Cidr, parse_address
from kframework.cel.values import NONE, Optional
from tests.plugins.dynamic_resources.selecting import answer, cost

TOO_COSTLY = "run: operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("abc", 3),
        ([1, 2], 2),
        ({"a": 1}, 1),
        (Optional("ab"), 2),
        (NONE, 1),
        (5, 1),
        (Cidr(parse_address("10.0.0.0"), 9), 2),
    ],
)
def test_some_values_have_a_size(value: object, expected: int) -> None:
    assert costs.size(value) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'aaaaaaaaaaa' == 'aaaaaaaaaaa'", 2),
        ("'aaaaaaaaaaa' != 'a'", 1),
        ("quantity('1') == quantity('1')", 3),
        ("'aaaaaaaaaaa' + 'a' == 'b'", 3),
        ("'aaaaaaaaaaa' < 'aaaaaaaaaaa'", 2),
        ("'aaaaaaaaaaa'.contains('aaaaaaaaaaa')", 4),
        ("'aaaaaaaaaaa'.matches('aaaaa')", 4),
        ("'aaaaaaaaaaa'.lowerAscii() == ''", 2),
        ("'aaaaaaaaaaa'.replace('b', 'c') == ''", 3),
        ("['aaaaaaaaaaa', 'b'].join('-') == ''", 3),
        ("dyn([1, 2]) in [dyn([1, 2])]", 1),
        ("[1, 2, 3].sum() == 6", 4),
        ("['aaaaaaaaaaa', 'b'].isSorted()", 1),
        ("[1, 2].slice(0, 1) == [1]", 13),
        ("[[1], [2]].flatten() == [1, 2]", 14),
        ("[2, 1].sort() == [1, 2]", 20),
        ("['b', 'a'].sort() == ['a', 'b']", 20),
        ("[1, 1].distinct() == [1]", 20),
        ("sets.equivalent([1, 2], [1])", 5),
        ("ip('10.0.0.1').family() == 4", 3),
        ("cidr('10.0.0.0/8').containsIP(ip('10.0.0.1'))", 3),
        ("cidr('10.0.0.0/8').containsCIDR('10.0.0.0/16')", 6),
        ("cidr('10.0.0.0/8').ip() == ip('10.0.0.0')", 4),
        ("ip.isCanonical('10.0.0.1')", 2),
        ("format.dns1123Label().validate('a').hasValue()", 10),
    ],
)
def test_call_has_the_cost_of_kubernetes(expression: str, expected: int) -> None:
    assert cost(expression) == expected


@pytest.mark.parametrize(
    "step",
    [
        "(big + [x]).size() > 0",
        "'%s'.format([big]) != ''",
        "'ab'.replace('', text) != ''",
        "big.map(y, 'a').isSorted()",
        "strings.isSorted()",
        "strings.max() == 'a'",
    ],
)
def test_cheap_but_slow_evaluation_ends(step: str) -> None:
    big = "lists.range(50000)"
    text = "'" + "b" * 90000 + "'"
    loop = f"lists.range(20000).all(x, {step})"
    bound = f"cel.bind(big, {big}, cel.bind(text, {text}, cel.bind(strings, big.map(y, 'a'), {loop})))"
    assert answer(bound) == TOO_COSTLY


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(2000000).size() > 0 || true",
        "lists.range(100000).map(x, x).size() > 0",
        "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
        "cel.bind(s, 'a'.replace('', '" + "b" * 5000 + "'), s.replace('', s).size() > 0)",
        "lists.range(9).map(x, 1).size() == lists.range(9223372036854775807).size()",
        "cel.bind(a, lists.range(90000), cel.bind(b, a + a + a + a, cel.bind(c, b + b + b, c.size() > 0)))",
    ],
)
def test_cost_limit_is_not_absorbed(expression: str) -> None:
    assert answer(expression) == TOO_COSTLY


def test_cost_limit_is_that_of_kubernetes() -> None:
    just_below = "lists.range(999987).size() > 0"
    assert cost(just_below) == costs.COST_LIMIT
    assert answer(just_below) is True
    assert answer("lists.range(999988).size() > 0") == TOO_COSTLY
