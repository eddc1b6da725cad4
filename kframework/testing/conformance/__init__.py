"""Recorded answers of kube-scheduler, replayed through the real engine and compared field by field."""
