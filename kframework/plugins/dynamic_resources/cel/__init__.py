"""The language of device selectors: CEL, as Kubernetes 1.36 sets it up for dynamic resource allocation.

An expression goes from its tokens (`lexer`) to a tree (`parser`, `macros`), gets types (`checker`) and constants
(`folding`), and becomes closures (`compiler`, `loops`); what they work on is in `values`, what they call in `library`.
"""

from kframework.plugins.dynamic_resources.cel.device import Device
from kframework.plugins.dynamic_resources.cel.errors import CelError
from kframework.plugins.dynamic_resources.cel.selector import Selector, compile_selector

__all__ = ["CelError", "Device", "Selector", "compile_selector"]
