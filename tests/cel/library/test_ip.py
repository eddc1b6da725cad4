from __future__ import annotations

import pytest

from tests.plugins.dynamic_resources.selecting import answer, fails


@pytest.mark.parametrize(
    "expression",
    [
        "isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0.300')",
        "!isIP('10.0.0.01') && !isIP('x') && !isIP('10.0.0.0/8')",
        "!isIP('fe80::1%en0') && !isIP('::ffff:1.2.3.4')",
        "ip('10.0.0.1') == ip('10.0.0.1') && ip('2001:DB8::1') == ip('2001:db8:0::1') && type(ip('::1')) == net.IP",
        "ip('10.0.0.1').family() == 4 && ip('::1').family() == 6 && string(ip('2001:DB8::0:1')) == '2001:db8::1'",
        "ip.isCanonical('10.0.0.1') && !ip.isCanonical('2001:DB8::1') && ip.isCanonical('2001:db8::1')",
        "ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('10.0.0.1').isUnspecified()",
        "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && !ip('10.0.0.1').isLoopback()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "!ip('224.0.1.1').isLinkLocalMulticast()",
        "ip('169.254.1.1').isLinkLocalUnicast()",
        "ip('fe80::1').isLinkLocalUnicast() && !ip('::1').isLinkLocalUnicast()",
        "ip('10.0.0.1').isGlobalUnicast() && ip('2001:db8::1').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast() && !ip('224.0.0.1').isGlobalUnicast() && !ip('::').isGlobalUnicast()",
    ],
)
def test_ip_functions_hold(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("ip('10.0.0.256').family() == 4", "parse error during conversion from string"),
        ("ip('fe80::1%en0').family() == 6", "with zone value is not allowed"),
        ("ip('::ffff:1.2.3.4').family() == 6", "IPv4-mapped IPv6 address"),
        ("ip.isCanonical('x')", "parse error during conversion from string"),
    ],
)
def test_invalid_address_is_an_error(expression: str, problem: str) -> None:
    assert problem in str(answer(expression))
    assert str(answer(expression)).startswith("run: ")


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
