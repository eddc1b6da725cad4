"""Which pods of lower priority would have to go so that another fits."""
