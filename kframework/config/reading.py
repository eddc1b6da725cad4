"""The door for those who read configuration files: kube-scheduler's, and files of their own in the same way.

A file of one's own is parsed into a `Document`, whose `Place`s know their line; what is wrong there becomes a
ConfigError with file, line and the nearest name.
"""

from __future__ import annotations

from kframework.config.configuration import Configuration, RawArgs
from kframework.config.decode import decode, field_names
from kframework.config.document import Document, Json, Place, parse_documents, read_source
from kframework.config.duration import Duration
from kframework.config.in_tree import in_tree_points
from kframework.config.load import options_of, overridden
from kframework.config.load import parse as parse_configuration
from kframework.config.models import LeaderElection
from kframework.config.options import OPTIONS_KIND, Options
from kframework.config.problems import Problem, collecting, raise_all, required, shown
from kframework.errors import nearest

__all__ = [
    "OPTIONS_KIND",
    "Configuration",
    "Document",
    "Duration",
    "Json",
    "LeaderElection",
    "Options",
    "Place",
    "Problem",
    "RawArgs",
    "collecting",
    "decode",
    "field_names",
    "in_tree_points",
    "nearest",
    "options_of",
    "overridden",
    "parse_configuration",
    "parse_documents",
    "raise_all",
    "read_source",
    "required",
    "shown",
]
