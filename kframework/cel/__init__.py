"""CEL, the expression language of device selectors and of validation rules, as configured by Kubernetes 1.36.

`program.compile_program` compiles an expression in an `Environment`; problems raise `errors.CelError`. The stages:
tokens (`lexer`), syntax tree with macros expanded (`parser`), types (`checker`), constant folding (`program`), closures
(`compiler`, `closures`). `values` has the data types, `library` the functions.
"""
