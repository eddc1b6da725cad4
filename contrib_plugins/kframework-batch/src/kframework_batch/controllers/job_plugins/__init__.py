"""The plugins of a Job, which add variables and files to its pods, names in DNS, keys."""
