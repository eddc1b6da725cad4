from __future__ import annotations

import pytest

from kframework.cel.library.format import FORMATS
from tests.plugins.dynamic_resources.selecting import answer

UUID = "123e4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("dns1123Label", ["abc", "a-1", "1a"], ["A", "-a", "a-", "", "a" * 64, "a.b"]),
        ("dns1123Subdomain", ["a.b-c"], ["a..b", "a" * 254, "A.b"]),
        ("dns1035Label", ["abc"], ["1a", "a-"]),
        ("qualifiedName", ["a", "Ab_c.d", "example.com/x"], ["", "/x", "a/b/c", "x/", "A.b/x", "a" * 64]),
        ("dns1123LabelPrefix", ["abc-", "abc"], ["-abc", "-"]),
        ("dns1123SubdomainPrefix", ["a.b-"], ["A.b-"]),
        ("dns1035LabelPrefix", ["a-"], ["1-a"]),
        ("labelValue", ["", "a", "A_b.c"], ["-a", "a" * 64]),
        ("uri", ["https://a", "/a"], ["a"]),
        ("uuid", [UUID, UUID.replace("-", ""), UUID.upper()], ["x", UUID[:-1]]),
        ("byte", ["YQ==", ""], ["a", "YQ=", "é"]),
        ("date", ["2026-01-31", "0000-02-29"], ["2026-02-30", "2026-1-1", "20260101"]),
        (
            "datetime",
            ["2026-01-31T10:00:00Z", "2026-01-31t10:00:00.5+01:00"],
            ["", "2026-01-31", "2026-01-31T25:00:00Z", "2026-01-31T10:00:00", "x026-01-31T10:00:00Z"],
        ),
    ],
)
def test_names_and_values_have_formats(name: str, good: list[str], bad: list[str]) -> None:
    format = FORMATS[name]
    assert [text for text in good if format.problems(text)] == []
    assert [text for text in bad if not format.problems(text)] == []


@pytest.mark.parametrize(
    "expression",
    [
        "!format.dns1123Label().validate('abc').hasValue()",
        "format.dns1123Label().validate('a.b').value() == ['must not contain dots']",
        "format.named('dns1123Label').value() == format.dns1123Label()",
        "format.named('dns1123Label').value() != format.uuid()",
        "!format.named('nope').hasValue()",
    ],
)
def test_format_functions_hold(expression: str) -> None:
    assert answer(expression) is True


def test_every_format_is_a_function() -> None:
    for name in FORMATS:
        assert answer(f"format.{name}() == format.named('{name}').value()") is True
