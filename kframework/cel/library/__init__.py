"""The libraries of Kubernetes' CEL environment, one module each."""
