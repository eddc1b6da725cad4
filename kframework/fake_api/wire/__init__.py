"""Requests and answers as bytes, and back."""
