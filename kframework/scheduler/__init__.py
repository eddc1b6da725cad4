"""The asynchronous shell around an engine: it binds, evicts, writes and waits."""
