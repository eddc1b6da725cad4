"""Scheduling the pods of a group together: within each set of nodes, all or as many as it needs."""
