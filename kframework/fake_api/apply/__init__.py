"""Server-side apply: field ownership, and merging of applied configurations."""
