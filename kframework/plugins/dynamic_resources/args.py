"""The Args of DynamicResources: its time limits."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.config.args import ApiArgs
from kframework.config.duration import Duration
from kframework.objects.problem import Problem, invalid
from kframework.values.feature_gates import FeatureGates


class DynamicResourcesArgs(ApiArgs):
    """The time limits of Filter on one node (0 = without limit) and of PreBind for devices."""

    filter_timeout: Duration = Duration(10)
    """How long Filter may work on one node; `0s` is without limit."""
    binding_timeout: Duration = Duration(600)
    """How long PreBind waits for devices, at least a second."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        if self.filter_timeout < 0:
            yield invalid(("filterTimeout",), str(self.filter_timeout), "must be zero or positive")
        if self.binding_timeout < 1:
            yield invalid(("bindingTimeout",), str(self.binding_timeout), "must be at least 1 second")
