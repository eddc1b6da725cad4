"""Rules of custom resources: `x-kubernetes-validations`, CEL expressions in a schema.

`spec` validates them as text, `tree` compiles and evaluates them, `types` maps schemas and values to CEL.
"""
