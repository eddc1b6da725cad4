"""The actions that a session is made of, one file each."""
