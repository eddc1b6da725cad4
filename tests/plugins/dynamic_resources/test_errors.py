"""Errors of the allocator are errors of the framework."""

from __future__ import annotations

from kframework.errors import KFrameworkError
from kframework.plugins.dynamic_resources.errors import AllocationError, InvalidPools


def test_errors_share_a_base_class() -> None:
    assert issubclass(InvalidPools, AllocationError) and issubclass(AllocationError, KFrameworkError)
    assert str(InvalidPools()) == "invalid resource pools were encountered"
