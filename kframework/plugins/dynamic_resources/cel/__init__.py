"""The language of device selectors: CEL, as Kubernetes 1.36 sets it up for dynamic resource allocation.

`selector.compile_selector` gives a `Selector`, which is asked about a `device.Device`; what is wrong is an
`errors.CelError`. On the way an expression goes from its tokens (`lexer`) to a tree (`parser`, `macros`), gets types
(`checker`), loses its constants (`folding`), and becomes closures (`compiler`, `closures`, `loops`); what those work on
is in `values` and `containers`, what they call in `library`.
"""
