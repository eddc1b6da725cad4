"""`kframework new`: the package of a plugin, from templates that keep what was asked for."""
