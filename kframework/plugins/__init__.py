"""The built-in plugins: kube-scheduler's own, one file each, named in the configuration like any other."""
