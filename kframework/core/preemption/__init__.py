"""Preemption: the search for lower-priority pods whose eviction lets another pod fit."""
