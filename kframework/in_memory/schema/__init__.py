"""What an API server does to new objects before it stores them: decoding, defaults, validation."""
