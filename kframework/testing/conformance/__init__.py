"""Recorded answers of kube-scheduler, replayed through the real engine and compared field by field.

`cases` reads the recorded cases, one comparer per kind (in `single`, `sequence`, `objects`) puts
what the engine says beside what is recorded, `replay` picks the comparer and adds up.
"""
