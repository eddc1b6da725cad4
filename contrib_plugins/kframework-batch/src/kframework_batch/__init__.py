"""Batch scheduling for kframework: queues, gangs and fair shares in sessions, as Volcano does it."""
