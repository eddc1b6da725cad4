"""What a process serves over HTTP: connections, health, its endpoints."""
