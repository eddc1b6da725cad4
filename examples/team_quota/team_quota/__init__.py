"""TeamQuota: no team takes more than its share."""

from __future__ import annotations

from team_quota.quota import TeamQuota, TeamQuotaArgs

__all__ = ["TeamQuota", "TeamQuotaArgs"]
