"""Shadow profiles: they decide every pod of another profile again, and change nothing."""
