"""The versions of the distribution and of the plugin contract."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

__version__: str = version("kframework-sdk")

#: The number of the plugin contract; it grows when a plugin written against the old one may need a change.
API_VERSION: Final = 2
