from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import OWN, answer


@pytest.mark.parametrize(
    "expression",
    [
        "'a100'.matches('^a[0-9]+$') && matches('a100', '10') && !'a100'.matches('A')",
        "'é'.matches('^.$') && 'É'.matches('(?i)é') && 'x'.matches(r'\\pL')",
        f"{OWN}.model.matches('^a')",
        "'a1b2'.find('[0-9]') == '1' && 'ab'.find('[0-9]') == '' && 'éa1'.find('[0-9]') == '1'",
        "'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1'] && 'a'.findAll('b') == []",
        "'a1'.findAll('[0-9]', 0) == [] && 'a1'.findAll('[0-9]', -1) == ['1']",
        "'baxx'.findAll('x*') == ['', '', 'xx']",
        "'abab'.find('a|ab') == 'a'",
    ],
)
def test_text_is_matched(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("'a'.matches(device.driver + '(')", "run: error parsing regexp: missing ): `gpu.example.com(`"),
        ("'a'.find(device.driver + '[') == ''", "run: error parsing regexp: missing ]: `[`"),
        ("dyn(1).matches('a')", "run: no such overload: matches(int, string)"),
        ("dyn(1).find('a') == ''", "run: no such overload: find(int, string)"),
    ],
)
def test_invalid_pattern_or_text_is_an_error(expression: str, problem: str) -> None:
    assert answer(expression) == problem


def test_matching_takes_linear_time() -> None:
    assert answer(f"'{'a' * 5000}'.matches('^(a+)+$')") is True
    assert answer(f"'{'a' * 5000}b'.matches('^(a|a|a*)*$')") is False
