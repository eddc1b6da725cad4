"""What DynamicResources reports of claims that it creates and waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kframework.objects import ResourceClaim

#: How it can end to ask for a claim to be made.
CreationResult = Literal["success", "failure"]

#: How the wait for devices to be made ready can end; an error is that they are waited for no more.
WaitResult = Literal["success", "failure", "timeout", "error"]


class DeviceObserver:
    """Is told what becomes of claims; this one takes no notice."""

    def created(self, result: CreationResult) -> None:
        """Take notice that a claim for extended resources was made, or could not be."""

    def waited(self, claims: Sequence[ResourceClaim], result: WaitResult, seconds: float) -> None:
        """Take notice that the claims of a pod were waited for, some of whose devices had to be made ready."""
