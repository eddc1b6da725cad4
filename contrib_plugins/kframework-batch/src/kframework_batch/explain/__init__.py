"""Explain the state of a job or pod of batch scheduling from the accounts of sessions, with remedies that were tried."""
