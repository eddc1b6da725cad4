"""Feature gates have the defaults, locks and dependencies of each minor, and are set as in Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.values.feature_gates import (
    EFFECTIVE_GATES,
    MISSING_FEATURES,
    FeatureGates,
    parse_emulated_version,
    parse_feature_gates,
)


@pytest.mark.parametrize(
    ("minor", "settings", "is_enabled"),
    [
        ("1.36", {}, False),
        ("1.37", {}, True),
        ("1.36", {"StorageCapacityScoring": True}, True),
        ("1.37", {"StorageCapacityScoring": False}, False),
        ("1.36", {"AllAlpha": True}, True),
        ("1.37", {"AllBeta": False}, False),
        ("1.37", {"AllBeta": False, "StorageCapacityScoring": True}, True),
    ],
)
def test_gate_is_on_by_default_or_by_setting(minor: str, settings: dict[str, bool], is_enabled: bool) -> None:
    assert FeatureGates(minor, settings).is_enabled("StorageCapacityScoring") is is_enabled


@pytest.mark.parametrize(
    ("gate", "before", "now", "problem"),
    [
        ("StorageCapacityScoring", False, True, ""),
        ("VolumeLimitScaling", False, True, ""),
        ("DRADeviceTaintRules", False, True, ""),
        ("DRAFractionalCapacityRange", False, True, ""),
        ("DRADeviceTaints", True, True, ""),
        ("DRAExtendedResource", True, True, "feature is locked to true"),
        ("DRAPrioritizedList", True, True, "feature is locked to true"),
        ("DRAResourceClaimDeviceStatus", True, True, "feature is locked to true"),
        ("NodeDeclaredFeatures", True, True, "feature is locked to true"),
        ("InPlacePodVerticalScalingInitContainers", True, True, ""),
        ("SchedulerQueueingHints", True, False, "unrecognized feature gate"),
        ("SidecarContainers", True, False, "unrecognized feature gate"),
        ("GenericWorkload", False, False, ""),
        ("GangScheduling", False, False, "unrecognized feature gate"),
        ("WorkloadAwarePreemption", False, False, "unrecognized feature gate"),
        ("SchedulerPreQueueingHints", False, False, ""),
    ],
)
def test_gate_has_the_default_and_the_lock_of_1_37(gate: str, before: bool, now: bool, problem: str) -> None:
    assert (FeatureGates("1.36").is_enabled(gate), FeatureGates("1.37").is_enabled(gate)) == (before, now)
    first = next(FeatureGates("1.37", {gate: not now}).problems(), None) if problem else None
    assert problem in (first.message if first is not None else "")


def test_gate_that_the_minor_lacks_is_off() -> None:
    assert not FeatureGates("1.36").is_enabled("DRAFractionalCapacityRange")
    assert not FeatureGates("1.37").is_enabled("SchedulerQueueingHints")


@pytest.mark.parametrize(
    ("minor", "settings", "problems"),
    [
        ("1.37", {"StorageCapacityScoring": False, "KubeletTracing": False}, []),
        ("1.37", {"StorageCapacityScorin": True}, ["unrecognized feature gate: StorageCapacityScorin"]),
        ("1.37", {"GangScheduling": True}, ["unrecognized feature gate: GangScheduling"]),
        (
            "1.37",
            {"DRAExtendedResource": False},
            ["cannot set feature gate DRAExtendedResource to false, feature is locked to true"],
        ),
        ("1.36", {"DRAExtendedResource": False}, []),
        (
            "1.36",
            {"GangScheduling": True},
            ["GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"],
        ),
        ("1.36", {"GangScheduling": True, "GenericWorkload": True}, []),
    ],
)
def test_settings_are_checked_as_kubernetes_does(minor: str, settings: dict[str, bool], problems: list[str]) -> None:
    assert [problem.message for problem in FeatureGates(minor, settings).problems()] == problems


def test_defaults_have_no_problems() -> None:
    assert not [*FeatureGates("1.36").problems(), *FeatureGates("1.37").problems()]


def test_gates_that_change_nothing_are_listed() -> None:
    settings = {
        "StorageCapacityScoring": False,
        "DRAConsumableCapacity": False,
        "DRADeviceTaints": True,
        "DRADeviceTaintRules": False,
        "HPAScaleToZero": True,
    }
    assert FeatureGates("1.37", settings).without_effect() == [
        "DRAConsumableCapacity",
        "HPAScaleToZero",
    ]


def test_every_gate_that_is_off_has_an_effect_or_says_what_is_missing() -> None:
    gates = FeatureGates("1.37")
    off = {name for name, _, is_on in gates.features() if not is_on}
    assert off == (EFFECTIVE_GATES & off) | MISSING_FEATURES.keys()
    assert not EFFECTIVE_GATES & MISSING_FEATURES.keys()


def test_page_says_what_each_gate_does_or_lacks() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text()
    assert [f"`{name}`" for name in EFFECTIVE_GATES if f"`{name}`" not in page] == []
    assert [row for name, what in MISSING_FEATURES.items() if (row := f"| `{name}` | {what} |") not in page] == []


def test_settings_are_parsed_as_go_reads_booleans() -> None:
    assert parse_feature_gates("A=true, kube:B=F,C=1") == {"A": True, "B": False, "C": True}


@pytest.mark.parametrize(
    ("text", "message"), [("A", "missing bool value for A"), ("A=yes", "invalid value of A=yes: want true or false")]
)
def test_setting_without_boolean_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_feature_gates(text)


def test_version_is_parsed_with_its_component() -> None:
    assert [parse_emulated_version(text) for text in ("1.36", "v1.36", "kube=1.37")] == ["1.36", "1.36", "1.37"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.35", r"emulation version 1.35 is not between \[1.36, 1.37\]"),
        ("etcd=1.36", "component not registered: etcd"),
    ],
)
def test_other_version_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_emulated_version(text)
