"""Kubernetes' feature gates in kube-scheduler, by minor: what is on by default, what is locked, what depends on what.

A rule that differs between minors depends on `FeatureGates.is_enabled` if it has a gate, else on
`FeatureGates.is_1_36`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, NamedTuple

from kframework.errors import nearest_name
from kframework.objects.problem import Problem, short_repr

#: The release whose kube-scheduler is followed in each minor of Kubernetes that can be emulated, the default last.
RELEASES: Final = MappingProxyType({"1.36": "v1.36.2", "1.37": "v1.37.0"})
MINORS: Final = tuple(RELEASES)
LATEST_MINOR: Final = MINORS[-1]


class FeatureStage(NamedTuple):
    """How mature a feature is in a minor: `is_on` is the default, which `is_locked` forbids to change."""

    name: str
    is_on: bool
    is_locked: bool = False


_ALPHA, _BETA_OFF, _BETA = FeatureStage("alpha", False), FeatureStage("beta", False), FeatureStage("beta", True)
_STABLE, _LOCKED = FeatureStage("GA", True), FeatureStage("GA", True, is_locked=True)

#: The stages of the scheduler's features in the MINORS; None where the gate does not exist.
_STAGES: Mapping[str, tuple[FeatureStage | None, FeatureStage | None]] = MappingProxyType(
    {
        "ClearingNominatedNodeNameAfterBinding": (_BETA, _BETA),
        "CompositePodGroup": (None, _ALPHA),
        "DRAAdminAccess": (_LOCKED, _LOCKED),
        "DRAConsumableCapacity": (_BETA, _BETA),
        "DRADerivedAttributes": (None, _ALPHA),
        "DRADeviceBindingConditions": (_BETA, _BETA),
        "DRADeviceCompatibilityGroups": (None, _ALPHA),
        "DRADeviceTaintRules": (_BETA_OFF, _STABLE),
        "DRADeviceTaints": (_BETA, _STABLE),
        "DRAExtendedResource": (_BETA, _LOCKED),
        "DRAFractionalCapacityRange": (None, _BETA),
        "DRAListTypeAttributes": (_ALPHA, _ALPHA),
        "DRANodeAllocatableResources": (_ALPHA, _ALPHA),
        "DRAOptionalNodeOperations": (None, _ALPHA),
        "DRAPartitionableDevices": (_BETA, _BETA),
        "DRAPrioritizedList": (_STABLE, _LOCKED),
        "DRAResourceClaimDeviceStatus": (_BETA, _LOCKED),
        "DRAResourcePoolStatus": (_ALPHA, _ALPHA),
        "DRASchedulerFilterTimeout": (_BETA, _BETA),
        "DRAWorkloadResourceClaims": (_ALPHA, _BETA_OFF),
        "GangScheduling": (_ALPHA, None),
        "GenericWorkload": (_ALPHA, _BETA_OFF),
        "InPlacePodLevelResourcesVerticalScaling": (_BETA, _BETA),
        "InPlacePodVerticalScaling": (_LOCKED, _LOCKED),
        "InPlacePodVerticalScalingInitContainers": (_BETA, _STABLE),
        "InPlacePodVerticalScalingSchedulerPreemption": (None, _ALPHA),
        "InterPodAffinityHostnameFastPath": (None, _ALPHA),
        "MatchLabelKeysInPodTopologySpread": (_BETA, _BETA),
        "NodeDeclaredFeatures": (_BETA, _LOCKED),
        "NominatedNodeNameForExpectation": (_BETA, _BETA),
        "OpportunisticBatching": (_BETA, _BETA),
        "PodGroupPreemptionPolicy": (None, _ALPHA),
        "PodLevelResources": (_BETA, _BETA),
        "SchedulerAsyncAPICalls": (_BETA_OFF, _BETA_OFF),
        "SchedulerAsyncPreemption": (_BETA, _BETA),
        "SchedulerPopFromBackoffQ": (_BETA, _BETA),
        "SchedulerPreQueueingHints": (None, _ALPHA),
        "SchedulerQueueingHints": (_LOCKED, None),
        "SidecarContainers": (_LOCKED, None),
        "StorageCapacityScoring": (_ALPHA, _BETA),
        "TaintTolerationComparisonOperators": (_ALPHA, _ALPHA),
        "TopologyAwareWorkloadScheduling": (_ALPHA, _ALPHA),
        "VolumeLimitScaling": (_ALPHA, _BETA),
        "WorkloadAwarePreemption": (_ALPHA, None),
        "WorkloadWithJob": (_ALPHA, _ALPHA),
    }
)

#: The gates that must be on for a gate to be on.
_NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "CompositePodGroup": ("TopologyAwareWorkloadScheduling",),
        "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
        "DRADeviceTaintRules": ("DRADeviceTaints",),
        "DRAWorkloadResourceClaims": ("GenericWorkload",),
        "GangScheduling": ("GenericWorkload",),
        "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources", "NodeDeclaredFeatures"),
        "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
        "PodGroupPreemptionPolicy": ("GenericWorkload",),
        "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
        "WorkloadAwarePreemption": ("GangScheduling",),
        "WorkloadWithJob": ("GenericWorkload",),
    }
)

#: The gates that change what kframework decides or serves. Other features are always there, or never.
EFFECTIVE_GATES: Final = frozenset(
    {
        *("CompositePodGroup", "DRADeviceTaintRules", "DRAFractionalCapacityRange", "DRAWorkloadResourceClaims"),
        *("GenericWorkload", "PodGroupPreemptionPolicy", "StorageCapacityScoring", "TopologyAwareWorkloadScheduling"),
        *("VolumeLimitScaling", "WorkloadWithJob"),
    }
)

#: What is missing here if a gate without effect is turned on that is off by default in the latest minor.
MISSING_FEATURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DRADerivedAttributes": "no attributes of devices are derived from others",
        "DRADeviceCompatibilityGroups": "compatibility groups of devices are ignored",
        "DRAListTypeAttributes": "constraints of claims do not compare lists",
        "DRANodeAllocatableResources": "devices do not count as resources of their node",
        "DRAOptionalNodeOperations": "skipNodeOperations of devices is ignored",
        "DRAResourcePoolStatus": "requests for the status of pools are not answered",
        "InPlacePodVerticalScalingSchedulerPreemption": "no pod is preempted for a deferred resize",
        "InterPodAffinityHostnameFastPath": "it changes only the speed of kube-scheduler",
        "SchedulerAsyncAPICalls": "API calls are asynchronous in any case",
        "SchedulerPreQueueingHints": "it changes only the speed of kube-scheduler",
        "TaintTolerationComparisonOperators": "tolerations with Lt or Gt are rejected",
    }
)

#: The gates that set all features of a stage, unless a feature is set by name.
_WHOLE_STAGES: Mapping[str, str] = MappingProxyType({"AllAlpha": "alpha", "AllBeta": "beta"})


class FeatureGates:
    """The feature gates of a minor of Kubernetes, with the settings of a user; immutable."""

    def __init__(self, minor: str = LATEST_MINOR, settings: Mapping[str, bool] = MappingProxyType({})) -> None:
        self.minor: str = minor
        self.settings: Mapping[str, bool] = MappingProxyType(dict(settings))
        self._stages = {name: stage for name, stages in _STAGES.items() if (stage := stages[MINORS.index(minor)])}
        whole = {stage: settings[name] for name, stage in _WHOLE_STAGES.items() if name in settings}
        self._enabled = frozenset(
            name
            for name, stage in self._stages.items()
            if settings.get(name, stage.is_on if stage.is_locked else whole.get(stage.name, stage.is_on))
        )

    def __repr__(self) -> str:
        return f"FeatureGates({self.minor!r}, {dict(self.settings)!r})"

    @property
    def is_1_36(self) -> bool:
        """Whether rules without a gate are those of Kubernetes 1.36."""
        return self.minor == "1.36"

    def is_enabled(self, name: str) -> bool:
        """Return whether a feature of the scheduler is on; a gate that the minor does not have is off."""
        return name in self._enabled

    def features(self) -> Iterator[tuple[str, str, bool]]:
        """Yield the name and the stage of each of the scheduler's features, and whether it is on."""
        return ((name, stage.name, self.is_enabled(name)) for name, stage in self._stages.items())

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the settings, in the words of Kubernetes; paths begin with the gate."""
        for name, is_on in self.settings.items():
            stage = self._stages.get(name)
            if stage is None and name not in _WHOLE_STAGES and name not in _other_gates():
                nearest = nearest_name(name, {*self._stages, *_other_gates()})
                yield Problem((name,), f"unrecognized feature gate: {name}", nearest)
            elif stage is not None and stage.is_locked and is_on != stage.is_on:
                locked = f"feature is locked to {short_repr(stage.is_on)}"
                yield Problem((name,), f"cannot set feature gate {name} to {short_repr(is_on)}, {locked}")
        for name in sorted(self._enabled):
            missing = [need for need in _NEEDS.get(name, ()) if not self.is_enabled(need)]
            if missing:
                disabled = f"depends on features that are disabled: [{' '.join(missing)}]"
                yield Problem((name,), f"{name} is enabled, but {disabled}")

    @property
    def has_pod_groups(self) -> bool:
        """Whether the pods of a PodGroup are scheduled together; 1.36 has another version of that."""
        return self.is_enabled("GenericWorkload") and not self.is_1_36

    @property
    def has_placements(self) -> bool:
        """Whether a PodGroup is scheduled within one of several sets of nodes."""
        return self.has_pod_groups and self.is_enabled("TopologyAwareWorkloadScheduling")

    @property
    def has_group_trees(self) -> bool:
        """Whether a PodGroup is scheduled with all others below the same CompositePodGroup."""
        return self.has_placements and self.is_enabled("CompositePodGroup")

    @property
    def has_group_claims(self) -> bool:
        """Whether a PodGroup has claims to devices, which its pods share."""
        return self.has_pod_groups and self.is_enabled("DRAWorkloadResourceClaims")

    def without_effect(self) -> list[str]:
        """Return the gates that are set otherwise than by default and change nothing here."""
        return [
            name
            for name, is_on in self.settings.items()
            if name not in EFFECTIVE_GATES
            and name not in _WHOLE_STAGES
            and (name not in self._stages or self._stages[name].is_on != is_on)
        ]


#: The defaults of the latest minor.
DEFAULT_GATES: Final = FeatureGates()


@cache
def _other_gates() -> frozenset[str]:
    """Return the gates of Kubernetes 1.36 that do not concern the scheduler, but that it accepts."""
    return frozenset((files(__package__) / "other_feature_gates.txt").read_text(encoding="utf-8").split())


def parse_feature_gates(text: str) -> dict[str, bool]:
    """Parse settings as `Name=true,Other=false`; raises ValueError in the words of Kubernetes."""
    settings = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in pair.removeprefix("kube:").partition("="))
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        if value not in (*_TRUE, *_FALSE):
            raise ValueError(f"invalid value of {name}={value}: want true or false")
        settings[name] = value in _TRUE
    return settings


#: The booleans as Go reads them.
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


def parse_emulated_version(text: str) -> str:
    """Parse a minor as `1.36` or `kube=1.36`; raises ValueError in the words of Kubernetes."""
    component, _, version = text.rpartition("=")
    if component not in ("", "kube"):
        raise ValueError(f"component not registered: {component}")
    if version.removeprefix("v") not in MINORS:
        raise ValueError(f"emulation version {version} is not between [{MINORS[0]}, {LATEST_MINOR}]")
    return version.removeprefix("v")
