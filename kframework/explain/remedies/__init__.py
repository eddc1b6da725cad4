"""What would help a pod that fits nowhere, tried in what-ifs."""
