"""The version of the distribution, and that of the plugin contract."""

from importlib.metadata import version
from typing import Final

__version__ = version("kframework-sdk")

#: The number of the plugin contract; it grows when a plugin written against the old one may need a change.
API_VERSION: Final = 1
