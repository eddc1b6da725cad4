"""A fake API server: a cluster in memory behind Kubernetes' REST interface."""
