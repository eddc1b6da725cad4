"""Controllers that create the pods of replica sets, deployments and jobs, as kube-controller-manager does."""
