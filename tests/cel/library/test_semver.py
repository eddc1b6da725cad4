from __future__ import annotations

import pytest

from kframework.cel.errors import CelError
from kframework.cel.library.semver import Semver
from tests.plugins.dynamic_resources.selecting import answer

#: From the lowest to the highest.
ORDERED = (
    "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1 1.1.0"
).split()


def test_versions_have_an_order() -> None:
    versions = [Semver.parse(text) for text in ORDERED]
    shuffled = versions[::2] + versions[1::2]
    assert sorted(shuffled, key=lambda version: version.order) == versions
    assert len(set(versions)) == len(versions)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("01.2.3", "Major number must not contain leading zeroes"),
        ("1.x.3", "Invalid character"),
        ("1.2.", "Invalid character"),
        ("v1.2.3", "Invalid character"),
        ("1.2.3-", "Invalid character"),
        ("1.2.3-a..b", "Invalid character"),
        ("1.2.3-01", "must not contain leading zeroes"),
        ("1.2.3+", "Invalid character"),
        ("1.2.3-é", "Invalid character"),
        ("1.2.99999999999999999999999", "out of range"),
    ],
)
def test_invalid_version_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(CelError, match=problem):
        Semver.parse(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1.2", "1.2.0"), ("1", "1.0.0"), ("01.02.03", "1.2.3"), ("v1.2.3-rc.1+b", "1.2.3-rc.1"), ("0.0", "0.0.0")],
)
def test_versions_are_normalized(text: str, version: str) -> None:
    assert Semver.parse_normalized(text) == Semver.parse(version)


@pytest.mark.parametrize("text", ["1-alpha", "v1.2+build", "x", ""])
def test_invalid_version_is_not_normalized(text: str) -> None:
    with pytest.raises(CelError):
        Semver.parse_normalized(text)


@pytest.mark.parametrize(
    "expression",
    [
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.10.0').isGreaterThan(semver('1.9.9'))",
        "semver('1.0.0').compareTo(semver('1.0.0')) == 0 && semver('1.0.0').compareTo(semver('2.0.0')) == -1",
        "semver('1.0.0+a') == semver('1.0.0+b') && semver('v1', true) == semver('1.0.0')",
        "isSemver('1.2.3') && !isSemver('1.2') && isSemver('1.2', true) && !isSemver('abc', true)",
        "!isSemver('v1.2.3', false)",
    ],
)
def test_semver_functions_hold(expression: str) -> None:
    assert answer(expression) is True
