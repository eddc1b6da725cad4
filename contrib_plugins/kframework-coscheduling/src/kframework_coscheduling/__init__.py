"""Coscheduling: the pods of a PodGroup (scheduling.x-k8s.io) start together or not at all."""

from __future__ import annotations

from kframework_coscheduling.coscheduling import Coscheduling, CoschedulingArgs
from kframework_coscheduling.pod_groups import PodGroup, PodGroupSpec, PodGroupStatus

__all__ = ["Coscheduling", "CoschedulingArgs", "PodGroup", "PodGroupSpec", "PodGroupStatus"]
