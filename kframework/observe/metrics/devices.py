"""Counts claims that the scheduler makes, and how long devices took to be made ready: plugins tell, no record does."""

from __future__ import annotations

from collections.abc import Sequence

from kframework.core.runtime.profiles import Profiles
from kframework.objects import ResourceClaim
from kframework.observe.metrics import families
from kframework.observe.metrics.series import NANOSECONDS, Counts, Histograms, Series, as_labels
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.binding_conditions import awaited
from kframework.plugins.dynamic_resources.observer import CreationResult, DeviceObserver, WaitResult


class DeviceCounts:
    """What kube-scheduler's metrics would say of claims."""

    def __init__(self) -> None:
        self.made: Counts[tuple[str]] = Counts(families.RESOURCECLAIM_CREATES, as_labels)
        self.allocations: Counts[tuple[str, str, str]] = Counts(families.DRA_BINDINGCONDITIONS_ALLOCATIONS, as_labels)
        self.waits: Histograms[tuple[str, str, str]] = Histograms(
            families.DRA_BINDINGCONDITIONS_WAIT_DURATION, as_labels, scale=NANOSECONDS
        )
        #: All that is counted here.
        self.series: tuple[Series, ...] = (self.made, self.allocations, self.waits)

    def attach(self, profiles: Profiles) -> None:
        """Begin to count what becomes of the claims of these profiles' pods."""
        from kframework.plugins.dynamic_resources.plugin import DynamicResources

        for profile, plugin in profiles.plugins():
            if isinstance(plugin, DynamicResources):
                plugin.observed_by(_OfProfile(self, profile.name))


class _OfProfile(DeviceObserver):
    """Counts for one profile."""

    def __init__(self, counts: DeviceCounts, profile: str) -> None:
        self._counts = counts
        self._profile = profile

    def created(self, result: CreationResult) -> None:
        self._counts.made[result,] += 1

    def waited(self, claims: Sequence[ResourceClaim], result: WaitResult, seconds: float) -> None:
        """Count devices that had to be made ready; all of the claims have taken so long, whether they had to or not."""
        for claim in claims:
            for device in awaited(claim):
                self._counts.allocations[self._profile, device.driver, result] += 1
            for device in results_of(claim):
                self._counts.waits[self._profile, device.driver, result].observe(round(seconds * NANOSECONDS))
