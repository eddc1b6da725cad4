"""What Kubernetes' own kinds are given where their writer says nothing: one file for each part of the API.

Where that is the same for all objects it stands as a schema with defaults, as users write them for their own kinds.
"""
