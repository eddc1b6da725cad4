"""The configuration: `kubescheduler.config.k8s.io/v1` files as kube-scheduler reads them, and kframework's options.

`load` reads and validates a file, `expand` orders its plugins per extension point, `decode_args` decodes their args,
`effective_yaml` shows the effective configuration.
"""

from __future__ import annotations
