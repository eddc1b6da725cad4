"""The HTTP server of a process: connections, health checks and endpoints."""
