"""The controllers: pod groups and pods for Jobs, pod groups for plain pods, and the states of queues."""

from __future__ import annotations

from kframework_batch.controllers.controller import Controller
from kframework_batch.controllers.jobs import JobController
from kframework_batch.controllers.pod_groups import PodGroupController
from kframework_batch.controllers.queues import QueueController

__all__ = ["Controller", "JobController", "PodGroupController", "QueueController"]
