"""LearnedScore: prefer nodes where pods were slowed down least, as far as earlier pods tell."""

from __future__ import annotations

from learned.model import Model
from learned.score import LearnedScore, LearnedScoreArgs

__all__ = ["LearnedScore", "LearnedScoreArgs", "Model"]
