"""One scheduling cycle: a search for a node, and the attempt around it."""
