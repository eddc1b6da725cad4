"""The configuration: `kubescheduler.config.k8s.io/v1` files as kube-scheduler reads them, and our own options.

`load` reads and validates a file, `expand` orders its plugins per extension point, `decode_args` makes models of their
args, `effective_yaml` shows what holds in the end.
"""

from __future__ import annotations
