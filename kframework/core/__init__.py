"""From a popped pod to its Decision: synchronous, no I/O, no await."""
