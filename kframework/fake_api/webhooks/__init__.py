"""Admission webhooks: HTTP services that may change or reject writes."""
