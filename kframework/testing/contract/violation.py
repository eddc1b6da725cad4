"""What is raised where a plugin breaks the contract."""

from __future__ import annotations

import re

from kframework.core.runtime.hooks import code_place, hooks_of
from kframework.framework.plugin import Plugin


class ContractViolation(AssertionError):
    """Raised when a plugin breaks the contract.

    `asked` says what was asked about which pod and node, `answered` what came of it and what should have come,
    `remedy` what to change; `when` names the random cluster, and what had happened to it.
    """

    def __init__(
        self,
        plugin: type[Plugin],
        *,
        asked: str,
        answered: str,
        remedy: str,
        when: str,
        cause: BaseException | None = None,
    ) -> None:
        self.plugin: str = plugin.name
        self.asked = asked
        self.answered = answered
        self.remedy = remedy
        self.when = when
        self._place = plugin, _hook(plugin, f"{asked} {remedy}"), cause or answered
        super().__init__(plugin.name, asked, answered, remedy, when)

    @property
    def where(self) -> str:
        """The file and line of the hook that was asked or is to be changed; of the class if that is none."""
        return code_place(*self._place)

    def __str__(self) -> str:
        lines = {"asked": self.asked, "answered": self.answered, "to change": self.remedy, "where": self.where}
        told = (f"  {title + ':':<10} {text}" for title, text in (lines | {"when": self.when}).items() if text)
        return "\n".join([f"{self.plugin} breaks the contract", *told])


def _hook(plugin: type[Plugin], text: str) -> str:
    """Return the first word that is a hook of the plugin, or ""."""
    hooks = hooks_of(plugin)
    return next((word for word in re.findall(r"\w+", text) if word in hooks), "")
