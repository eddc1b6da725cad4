"""The contract: what a plugin author reads."""
