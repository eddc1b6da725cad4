"""The configuration: `kubescheduler.config.k8s.io/v1` files as kube-scheduler reads them, and our own options.

`load` reads and validates a file, `expand` orders its plugins per extension point, `typed_args` gives a plugin its own
args, `effective_yaml` shows what holds in the end.
"""

from __future__ import annotations

from kframework.config.configuration import Configuration, Profile, RawArgs, typed_args
from kframework.config.duration import Duration
from kframework.config.expand import ExtensionPoints, PointsOf, check, expand, expand_all
from kframework.config.in_tree import InTreePlugin, in_tree_points, known_in_tree
from kframework.config.load import default_configuration, load, parse
from kframework.config.models import POINTS, Extender, Plugins, Settings
from kframework.config.options import Options, Tracing
from kframework.config.problems import ConfigErrors
from kframework.config.show import effective, effective_options, effective_yaml

__all__ = [
    "POINTS",
    "ConfigErrors",
    "Configuration",
    "Duration",
    "Extender",
    "ExtensionPoints",
    "InTreePlugin",
    "Options",
    "Plugins",
    "PointsOf",
    "Profile",
    "RawArgs",
    "Settings",
    "Tracing",
    "check",
    "default_configuration",
    "effective",
    "effective_options",
    "effective_yaml",
    "expand",
    "expand_all",
    "in_tree_points",
    "known_in_tree",
    "load",
    "parse",
    "typed_args",
]
