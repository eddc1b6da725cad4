"""The stock plugins of sessions, one file each."""
