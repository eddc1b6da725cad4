"""Together: the pods of a group start together or not at all."""

from __future__ import annotations

from together.together import GROUP, SIZE, Together, TogetherArgs

__all__ = ["GROUP", "SIZE", "Together", "TogetherArgs"]
