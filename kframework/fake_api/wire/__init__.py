"""Encodings of requests and answers."""
