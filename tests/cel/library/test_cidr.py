from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selectors.selecting import answer, fails


@pytest.mark.parametrize(
    "expression",
    [
        "isCIDR('10.0.0.0/8') && isCIDR('::/0')",
        "!isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08')",
        "!isCIDR('10.0.0.0/-1') && !isCIDR('x/8') && !isCIDR('fe80::%en0/64')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP('11.0.0.1')",
        "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && !cidr('10.0.0.0/8').containsIP('::1')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')",
        "cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/8')) && !cidr('10.0.0.0/8').containsCIDR('11.0.0.0/16')",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && cidr('::/0').prefixLength() == 0",
        "string(cidr('10.0.0.0/8')) == '10.0.0.0/8' && cidr('10.0.0.0/8') != cidr('10.0.0.0/9')",
    ],
)
def test_cidr_functions_hold(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    "expression",
    [
        "cidr('10.0.0.0').prefixLength() == 8",
        "cidr('10.0.0.0/8').containsIP('x')",
        "cidr('10.0.0.0/8').containsCIDR('10.0.0.0')",
    ],
)
def test_invalid_cidr_is_an_error(expression: str) -> None:
    assert fails(expression)
