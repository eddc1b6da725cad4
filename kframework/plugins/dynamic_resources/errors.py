"""Why devices cannot be allocated, where that is nobody's lack of devices."""

from __future__ import annotations

from kframework.errors import KFrameworkError


class AllocationError(KFrameworkError):
    """Raised when it cannot be said which devices a claim could get, as something in it or in what it asks is wrong."""


class InvalidPools(AllocationError):
    """Raised when there are no devices for a claim, and a pool that its node can reach is invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")
