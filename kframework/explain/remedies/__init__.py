"""Remedies for a pod that fits nowhere, tried in what-ifs."""
