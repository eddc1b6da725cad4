"""What makes pods of workloads: replica sets, deployments and jobs, as kube-controller-manager does."""
