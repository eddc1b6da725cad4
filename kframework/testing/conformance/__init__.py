"""Recorded answers of kube-scheduler, replayed through the real engine and compared field by field.

`cases` reads the recorded cases, one comparer per kind (in `single`, `sequence`, `objects`) compares the engine's
results with the recorded ones, `replay` picks the comparer and adds up.
"""
