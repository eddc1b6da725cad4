"""Recorded answers of kube-scheduler, replayed through the real engine and compared field by field.

`cases` reads the recorded cases, one comparer per kind (`single`, `sequence`, `resources`, `selector`, `quantity`) puts
what the engine says beside what is recorded, `replay` picks the comparer, `summary` adds up.
"""
