"""The libraries of Kubernetes' CEL environment, one file each: what its functions take, give and do."""
