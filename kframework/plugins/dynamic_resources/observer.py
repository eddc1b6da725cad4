"""The observer of claims that DynamicResources creates and waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kframework.objects import ResourceClaim

#: The outcomes of creating a claim.
CreationResult = Literal["success", "failure"]

#: The outcomes of waiting for devices to be ready; an error means that the wait was aborted.
WaitResult = Literal["success", "failure", "timeout", "error"]


class DeviceObserver:
    """The base of observers of claims; it does nothing."""

    def on_creation(self, result: CreationResult) -> None:
        """Receive the outcome of creating a claim for extended resources."""

    def on_wait_end(self, claims: Sequence[ResourceClaim], result: WaitResult, seconds: float) -> None:
        """Receive the outcome of waiting for a pod's claims that have binding conditions."""
