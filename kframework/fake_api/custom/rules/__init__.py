"""Rules of custom resources: `x-kubernetes-validations`, expressions of CEL beside the schema that they are about.

`written` knows them as text, `tree` compiles those of a schema, `judgement` says which of them an object breaks,
`definitions` what keeps them from compiling. What a rule sees is in `types` and `values`: objects have fields and no
others, and lists are sets or maps where the schema says so.
"""
