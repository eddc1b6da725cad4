"""The contract for plugin authors."""
