"""The controllers: pod groups and pods for Jobs, pod groups for plain pods, and the states of queues."""

from __future__ import annotations
