"""What plugins of a Job add to it: variables and files in its pods, names in DNS, keys."""
