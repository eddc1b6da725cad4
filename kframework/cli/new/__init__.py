"""`kframework new`: the package of a plugin, from one of two templates."""
