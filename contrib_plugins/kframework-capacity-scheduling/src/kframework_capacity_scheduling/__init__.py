"""CapacityScheduling: namespaces lend each other what they do not use, and get it back by preemption."""

from __future__ import annotations

from kframework_capacity_scheduling.capacity_scheduling import CapacityScheduling
from kframework_capacity_scheduling.elastic_quota import ElasticQuota

__all__ = ["CapacityScheduling", "ElasticQuota"]
