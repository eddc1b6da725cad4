"""Profiles that shadow others: which there are, and which cannot be."""

from __future__ import annotations

import pytest

from kframework.config.load import parse
from kframework.errors import ConfigError, ConfigErrors

KIND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


TWO = "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: c}]\n"


def shadow_document(*profiles: str) -> str:
    return f"---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nprofiles: [{', '.join(profiles)}]\n"


def test_shadows_are_not_among_the_profiles() -> None:
    text = KIND + TWO + shadow_document("{schedulerName: b, shadow: a, shadowBudget: 20ms}")
    configuration = parse(text)
    assert [each.scheduler_name for each in configuration.profiles] == ["a", "c"]
    (shadow,) = configuration.shadows
    assert (shadow.profile.scheduler_name, shadow.shadowed, shadow.budget) == ("b", "a", 0.02)
    assert [each.scheduler_name for each in configuration.with_all_profiles.profiles] == ["a", "c", "b"]
    assert [each.scheduler_name for each in configuration.of_shadow(shadow).profiles] == ["a"]


@pytest.mark.parametrize(
    ("profiles", "problem"),
    [
        (["{schedulerName: d, shadow: a}"], 'profiles[0].schedulerName: Unsupported value: "d": supported values'),
        (["{schedulerName: b, shadow: d}"], 'profiles[0].shadow: Unsupported value: "d": supported values'),
        (["{schedulerName: b, shadow: b}"], 'profiles[0].shadow: Invalid value: "b": is a shadow itself'),
        (
            ["{schedulerName: b, shadow: a}", "{schedulerName: b, shadow: c}"],
            'profiles[1].schedulerName: Duplicate value: "b"',
        ),
        (
            ["{schedulerName: b, shadow: a, shadowBudget: 2s}"],
            'profiles[0].shadowBudget: Invalid value: "2s": must be greater than zero, and at most 1s',
        ),
    ],
)
def test_shadows_that_cannot_be_are_refused(profiles: list[str], problem: str) -> None:
    with pytest.raises((ConfigError, ConfigErrors)) as refusal:
        parse(KIND + TWO + shadow_document(*profiles))
    assert problem in str(refusal.value)


def test_shadows_and_extenders_exclude_each_other() -> None:
    extended = 'extenders: [{urlPrefix: "http://localhost:1", filterVerb: filter}]\n'
    with pytest.raises(ConfigError, match="extenders cannot be called for shadows"):
        parse(KIND + TWO + extended + shadow_document("{schedulerName: b, shadow: a}"))
