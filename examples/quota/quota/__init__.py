"""Quota: pods are bound once a quota service outside has granted their cpu."""

from __future__ import annotations

from quota.quota import Quota, QuotaArgs

__all__ = ["Quota", "QuotaArgs"]
