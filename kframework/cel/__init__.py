"""CEL, the language of device selectors and of the rules of custom resources, as Kubernetes 1.36 sets it up.

`program.compile_program` makes a `Program` of an expression in an `Environment`; what is wrong is an `errors.CelError`.
On the way an expression goes from its tokens (`lexer`) to a tree (`parser`, `macros`), gets types (`checker`), loses
its constants (`folding`), and becomes closures (`compiler`, `closures`, `loops`); what those work on is in `values`
and `containers`, what they call in `library`.
"""
