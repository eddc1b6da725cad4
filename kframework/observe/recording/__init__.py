"""Recordings of a scheduler's inputs and decisions in a file: written, read, replayed."""
