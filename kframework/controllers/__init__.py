"""What acts on a cluster in memory as the parts of a real one do: kubelets, controllers, the garbage collector."""
