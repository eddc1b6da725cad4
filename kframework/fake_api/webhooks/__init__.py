"""Admission webhooks: programs of others that look at what is written, and may change or refuse it."""
