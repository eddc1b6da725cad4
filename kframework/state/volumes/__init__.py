"""Volumes, claims and attachments, as they stand on nodes and in the promises of pods."""
