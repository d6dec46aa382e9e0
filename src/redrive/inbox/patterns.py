"""Patterns: which handler takes an event, by its type.

A pattern is text in which ``*`` stands for any text, dots and nothing included: ``video.media.*``. It is held
against ``type.action`` and against ``type`` alone. Of those that fit, the most specific wins: one without
``*`` before all others, then the one with more characters besides ``*``, then the one whose first ``*``
stands further back; of equals the one declared first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Pattern:
    text: str

    @cached_property
    def rank(self) -> tuple[bool, int, int]:
        """The greater, the more specific."""
        star = self.text.find("*")
        return star < 0, len(self.text.replace("*", "")), star

    def fits(self, *names: str) -> bool:
        return any(self._expression.fullmatch(name) for name in names)

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        # Several stars in a row are one: each more would double what a name that does not fit costs.
        pieces = [re.escape(piece) for piece in re.split(r"\*+", self.text)]
        return re.compile(".*?".join(pieces), re.DOTALL)
