"""Server-side apply: who owns which field of an object, and how what is applied is merged into it."""
