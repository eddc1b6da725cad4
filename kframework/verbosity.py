"""kube-scheduler's log verbosity as levels of the logging module: a line of verbosity N is there from `-v N` on."""

from __future__ import annotations

import logging
from itertools import count
from typing import Final

#: Verbosity 0: messages that are always shown, although nothing is wrong. Verbosity 1 is INFO, and 4 is DEBUG.
NOTICE: Final = 25

#: Results of attempts; attempts as they begin; moves in the queue, and hints; the scores of every node.
V2: Final = 18
V3: Final = 16
V5: Final = 9
V10: Final = 4

#: The levels of the first verbosities; from there on each verbosity is one level below the other.
_FIRST = (NOTICE, logging.INFO, V2, V3, logging.DEBUG)

#: The logger of plain messages to the user, independent of the log.
VOICE: Final = logging.getLogger("kframework.say")
VOICE.setLevel(NOTICE)

_KINDS = {"notice": NOTICE, "warning": logging.WARNING, "error": logging.ERROR}

logging.addLevelName(NOTICE, "NOTICE")
for _level, _name in {V2: "V2", V3: "V3", V5: "V5", V10: "V10"}.items():
    logging.addLevelName(_level, _name)


def level_of(verbosity: int) -> int:
    """Return the lowest level that is written at a verbosity."""
    below = verbosity - len(_FIRST)
    return _FIRST[verbosity] if below < 0 else max(_FIRST[-1] - 1 - below, 1)


def verbosity_of(level: int) -> int:
    return next(verbosity for verbosity in count() if level_of(verbosity) <= level)


def notify_user(kind: str, text: str) -> None:
    """Show a message to the user: an `error`, a `warning`, a `notice`."""
    VOICE.log(_KINDS[kind], text, stacklevel=2)
