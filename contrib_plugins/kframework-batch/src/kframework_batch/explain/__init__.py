"""Explain the state of a job or pod of batch scheduling: the accounts of sessions, and remedies that were tried."""
