"""A simulation as an object: to be stepped through, looked into and changed, from a program or a notebook."""
