"""Here too every remembered or incremental answer is compared with that of the slow search."""

from __future__ import annotations

from tests.core.cycle.conftest import answers_are_verified

__all__ = ["answers_are_verified"]
