"""Rules of custom resources: `x-kubernetes-validations`, CEL expressions in a schema."""
