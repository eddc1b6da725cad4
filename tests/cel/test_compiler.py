from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import OWN, answer, cost


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Fields of the device.
        ("device.driver == 'gpu.example.com'", True),
        ("device.allowMultipleAllocations", True),
        (f"{OWN}.model == 'a100'", True),
        (f"{OWN}['model'] == 'a100'", True),
        ("device.attributes['other.org'].vendor == 'acme'", True),
        ("device.capacity['gpu.example.com'].memory == quantity('40Gi')", True),
        (f"{OWN}.nope == 1", "run: no such key: nope"),
        (f"{OWN}.model.x == 1", "run: no such key: x"),
        (f"{OWN}.index", "run: CEL result of type int could not be converted to bool"),
        # A domain that is not there.
        ("device.attributes['absent.org'].size() == 0", True),
        ("device.attributes['absent.org'].x == 1", "run: no such key: x"),
        ("'absent.org' in device.attributes", False),
        ("'gpu.example.com' in device.attributes", True),
        ("has(device.attributes.absent)", True),
        ("device.attributes[?'absent.org'].hasValue()", True),
        ("device.attributes.size() == 2", True),
        # Presence.
        (f"has({OWN}.model)", True),
        (f"has({OWN}.nope)", False),
        (f"has({OWN}.model.x)", False),
        (f"{OWN}.?nope.hasValue()", False),
        (f"{OWN}[?'model'].value() == 'a100'", True),
        (f"{OWN}.?nope.orValue(true)", True),
        (f"{OWN}.?nope.or({OWN}.?healthy).value()", True),
        ("optional.of({'a': 1}).a.value() == 1", True),
        ("optional.of([1])[0].value() == 1", True),
        ("optional.of({'a': 1}).b.hasValue()", False),
        ("has(optional.of({'a': 1}).a)", True),
        ("has(optional.none().a)", False),
        ("dyn([1]).a == 1", "run: unsupported index type 'string' in list"),
        # Lists and maps.
        ("[1, 2][1] == 2", True),
        ("[1, 2][2] == 2", "run: index out of bounds: 2"),
        ("[1, 2][-1] == 2", "run: index out of bounds: -1"),
        ("[1, 2][dyn(1.0)] == 2", True),
        ("[1, 2][dyn(1.5)] == 2", "run: unsupported index value 1.5 in list"),
        ("[1, 2][?5].hasValue()", False),
        ("{1: 'a'}[1] == 'a'", True),
        ("{1: 'a'}[dyn(1u)] == 'a'", True),
        ("{1: 'a'}[dyn(1.0)] == 'a'", True),
        ("{1: 'a'}[2] == 'a'", "run: no such key: 2"),
        ("{true: 'a'}[true] == 'a'", True),
        ("{true: 'a'}[dyn(1)] == 'a'", "run: no such key: 1"),
        ("{dyn([1]): 'a'}.size() == 1", "compile: program instantiation failed: unsupported key type: list"),
        ("{dyn([int(device.driver.size())]): 'a'}.size() == 1", "run: unsupported key type: list"),
        ("{'a': device.driver}.a == 'gpu.example.com'", True),
        ("[device.driver, 'x'][1] == 'x'", True),
        (f"[?{OWN}.?nope, {OWN}.model].size() == 1", True),
        (f"[?{OWN}.?model].size() == 1", True),
        (f"{{?'a': {OWN}.?nope, ?'b': {OWN}.?model}}.size() == 1", True),
        (
            f"[?dyn({OWN}.model)].size() == 1",
            "run: cannot initialize optional list element from non-optional value a100",
        ),
        (
            f"{{?'a': dyn({OWN}.model)}}.size() == 1",
            "run: cannot initialize optional entry 'a' from non-optional value a100",
        ),
        # Errors and logic.
        (f"false && {OWN}.nope == 1", False),
        (f"{OWN}.nope == 1 && false", False),
        (f"true && {OWN}.nope == 1", "run: no such key: nope"),
        (f"true || {OWN}.nope == 1", True),
        (f"{OWN}.nope == 1 || true", True),
        (f"{OWN}.nope == 1 || false", "run: no such key: nope"),
        (f"{OWN}.model && true", "run: no such overload: _&&_(string)"),
        (f"{OWN}.model || false", "run: no such overload: _||_(string)"),
        (f"{OWN}.model || true", True),
        (f"!{OWN}.model", "run: no such overload: !_(string)"),
        (f"{OWN}.healthy ? true : {OWN}.nope", True),
        (f"{OWN}.model ? true : false", "run: no such overload: _?_:_(string)"),
        (f"({OWN}.healthy ? device.attributes : device.attributes)['other.org'].vendor == 'acme'", True),
        # Overloads that only the values tell.
        (f"{OWN}.version.isLessThan(semver('2.0.0'))", True),
        (
            f"{OWN}.version.isLessThan(quantity('2'))",
            "run: no such overload: isLessThan(kubernetes.Semver, kubernetes.Quantity)",
        ),
        (f"{OWN}.model.isLessThan({OWN}.model)", "run: no such overload: isLessThan(string, string)"),
        (f"{OWN}.version == '1.10.3'", "run: no such overload: _==_(kubernetes.Semver, string)"),
        (f"{OWN}.version != '1.10.3'", True),
        (f"'1.10.3' == {OWN}.version", False),
        (f"{OWN}.index == 3u && {OWN}.index == 3.0 && {OWN}.index < 3.5", True),
        (f"{OWN}.model in ['a100', 'h100']", True),
        (f"{OWN}.model in [device.driver, 'a100']", True),
        (f"{OWN}.index in [1, 3]", True),
        (f"{OWN}.index in [1u, 3u]", True),
        (f"{OWN}.healthy in [true]", True),
        (f"{OWN}.index in [true]", False),
        (f"{OWN}.version in ['a']", False),
        (f"{OWN}.nope in []", False),
    ],
)
def test_expression_is_evaluated(expression: str, expected: object) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{OWN}.model == 'a100'", 5),
        (f"{OWN}.nope == 1", 5),
        (f"has({OWN}.model)", 3),
        (f"{OWN}.?nope.hasValue()", 4),
        (f"{OWN}.?model.hasValue()", 5),
        (f"{OWN}.model in ['a100']", 4),
        ("[1, 2, 3].all(x, x > 0)", 16),
        ("[device.driver].size() == 1", 14),
        ("{'a': device.driver}.size() == 1", 34),
        (f"1 / 0 == 1 || {OWN}.healthy", 6),
        ("dyn([1, 2])[dyn(1)] == 2", 3),
        ("[1, 2][int(device.driver.size())] == 2", 7),
        ("true ? device.allowMultipleAllocations : false", 1),
        (f"{OWN}.nope.isLessThan({OWN}.nope)", 4),
        ("quantity('40Gi') == quantity('1')", 3),
        ("quantity('40Gx') == quantity('1')", 3),
        ("cel.bind(x, device.driver, x == 'a' || x == 'b')", 6),
    ],
)
def test_expression_costs_as_much_as_in_kubernetes(expression: str, expected: int) -> None:
    assert cost(expression) == expected
