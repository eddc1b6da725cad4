"""What is raised where a plugin breaks the contract."""

from __future__ import annotations


class ContractViolation(AssertionError):
    """Raised when a plugin breaks the contract.

    `asked` says what was asked about which pod and node, `answered` what came of it and what should have come,
    `remedy` what to change. `when` names the random cluster, and what had happened to it.
    """

    def __init__(self, plugin: str, *, asked: str, answered: str, remedy: str, when: str) -> None:
        self.plugin = plugin
        self.asked = asked
        self.answered = answered
        self.remedy = remedy
        self.when = when
        super().__init__(plugin, asked, answered, remedy, when)

    def __str__(self) -> str:
        lines = {"asked": self.asked, "answered": self.answered, "to change": self.remedy, "when": self.when}
        told = (f"  {title + ':':<10} {text}" for title, text in lines.items())
        return "\n".join([f"{self.plugin} breaks the contract", *told])
