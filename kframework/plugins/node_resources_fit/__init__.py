"""NodeResourcesFit."""
