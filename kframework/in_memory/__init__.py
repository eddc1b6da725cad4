"""A cluster in memory, with its kubelets and controllers: all that a simulation needs."""
