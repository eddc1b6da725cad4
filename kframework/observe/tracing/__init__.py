"""Spans of scheduling and binding cycles."""
