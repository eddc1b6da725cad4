"""What a scheduler was told and decided, as a file: written, read, replayed."""
