from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import OWN, answer


@pytest.mark.parametrize(
    "expression",
    [
        f"{OWN}.model",
        f"{OWN}.healthy",
        "true ? device.attributes['a'].b == 1 : false",
        f"false ? false : {OWN}.healthy",
        f"{OWN}.?healthy.orValue(false)",
        "type(1) == int",
        "type(ip('::1')) == net.IP",
        "type(duration('1s')) == google.protobuf.Duration",
        "type([]) == list && type({}) == map && type(type) == type",
        "optional.none().orValue(true)",
        "quantity('1') != null",
        "[[], [1]].size() == 2",
        "[dyn(1), dyn('a')].size() == 2",
        "dyn(1) == 'a'",
        ".device.driver != ''",
        "{'a': {'b': 1}}.a.b == 1",
        "dyn({'a': 1}).a == 1",
        "[1, ?optional.of(2)].size() == 2",
        "{?'a': optional.of(2)}.size() == 1",
        "cel.bind(device, {'x': 1}, device.x == 1)",
    ],
)
def test_well_typed_expression_compiles(expression: str) -> None:
    assert not str(answer(expression)).startswith("compile: ")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("nope", "undeclared reference to 'nope' (in container '')"),
        ("nope(1)", "undeclared reference to 'nope' (in container '')"),
        ("device.driver.nope()", "undeclared reference to 'nope' (in container '')"),
        ("math.greatest(1, 2) == 2", "undeclared reference to 'math' (in container '')"),
        ("type(1) == kubernetes.Quantity", "undeclared reference to 'kubernetes' (in container '')"),
        ("device.nope", "undefined field 'nope'"),
        ("device.?nope.hasValue()", "undefined field 'nope'"),
        ("device.driver.x == 1", "type 'string' does not support field selection"),
        ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
        ("1 + 'a' == 2", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("'a'.size(1) == 1", "found no matching overload for 'size' applied to 'string.(int)'"),
        ("startsWith('a', 'b')", "found no matching overload for 'startsWith' applied to '(string, string)'"),
        ("null == 1", "found no matching overload for '_==_' applied to '(null, int)'"),
        ("1 && true", "expected type 'bool' but found 'int'"),
        ("1 ? true : false", "found no matching overload for '_?_:_' applied to '(int, bool, bool)'"),
        ("[1][''] == 1", "found no matching overload for '_[_]' applied to '(list(int), string)'"),
        ("[?1].size() == 1", "expected type 'optional_type(int)' but found 'int'"),
        ("{?'a': 1}.size() == 1", "expected type 'optional_type(int)' but found 'int'"),
        ("x.all(x, true)", "undeclared reference to 'x' (in container '')"),
        ("[1].all(x, x)", "expected type 'bool' but found 'int'"),
        ("[1].map(x, x).all(y, x == y)", "undeclared reference to 'x' (in container '')"),
        ("device", "must evaluate to bool or the unknown type, not kubernetes.DRADevice"),
        ("[true]", "must evaluate to bool or the unknown type, not list(bool)"),
        ("optional.of(true)", "must evaluate to bool or the unknown type, not optional_type(bool)"),
        ("optional.none()", "must evaluate to bool or the unknown type, not optional_type(dyn)"),
    ],
)
def test_ill_typed_expression_does_not_compile(expression: str, problem: str) -> None:
    assert answer(expression) == f"compile: {problem}"
