"""The configuration: `kubescheduler.config.k8s.io/v1` files as kube-scheduler reads them, and our own options.

`load` reads and validates a file, `expand` orders its plugins per extension point, `typed_args` gives a plugin its own
args, `effective_yaml` shows what holds in the end.
"""

from __future__ import annotations
