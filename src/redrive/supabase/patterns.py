"""Patterns: the regular expressions that mean the same to pydantic (Rust's regex) and to Postgres.

A small language is taken: ASCII characters, punctuation with a backslash before it, ``[a-z0-9_.-]`` and
``[^...]``, ``^`` at the beginning and ``$`` at the end of an alternative, ``(...)``, ``(?:...)``, ``|``, and
``* + ? {2} {2,} {2,5}``. Both engines then ask whether a part of the text fits, character by character, with
neither case nor collation nor lines. Everything else is refused: ``\\d`` and ``\\w`` differ with the locale,
``.`` in what it makes of a newline, and lookarounds and lazy quantifiers are not in both.
"""

from __future__ import annotations

import string

# Postgres keeps a count below 256, and gives up on an expression that unfolds into too many states.
_MOST = 255
_STATES = 2000
_WORD = string.ascii_letters + string.digits
_LITERALS = frozenset(_WORD + "_-@:/,;!%&=~#<>\"'` ")
_ESCAPED = frozenset(".+*?()[]{}|^$\\-/")
_MEMBERS = frozenset(_WORD + "_.@,:/+*%#! ")
_RANGES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)


def understood(pattern: str) -> bool:
    """Whether `pattern` is in the language that both engines read alike."""
    reader = _Reader(pattern)
    try:
        return 0 < reader.alternatives() <= _STATES and reader.at == len(pattern)
    except _Other:
        return False


class _Other(Exception):
    """Not of the language."""


class _Reader:
    """Each method reads what it is named after, and answers how many states that unfolds into."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def alternatives(self) -> int:
        states = self._sequence()
        while self._take("|"):
            states += self._sequence()
        return states

    def _sequence(self) -> int:
        states = 0
        anchored = self._take("^")
        while self._next() not in ("", "|", ")", "$"):
            states += self._repeated()
        if self._take("$"):
            anchored = True
            if self._next() not in ("", "|", ")"):
                raise _Other
        if not states and not anchored:
            raise _Other
        return states + 1

    def _repeated(self) -> int:
        states = self._one()
        low, high = 1, 1
        if self._take("{"):
            low, high = self._counts()
        elif self._next() in ("*", "+", "?"):
            self.at += 1
        # A second one, also the ? of a lazy one, is no character of the language.
        return states * max(low, high)

    def _counts(self) -> tuple[int, int]:
        low = self._number()
        high = low
        if self._take(","):
            high = low + 1 if self._next() == "}" else self._number()
        if not self._take("}") or high == 0 or low > high:
            raise _Other
        return low, high

    def _number(self) -> int:
        digits = ""
        while self._next() in tuple(string.digits):
            digits += self._pattern[self.at]
            self.at += 1
        if not digits or len(digits) > 3 or int(digits) > _MOST:
            raise _Other
        return int(digits)

    def _one(self) -> int:
        if self._take("("):
            if self._take("?") and not self._take(":"):
                raise _Other
            states = self.alternatives()
            if not self._take(")"):
                raise _Other
            return states
        if self._take("["):
            self._members()
        elif self._take("\\"):
            self._any_of(_ESCAPED)
        else:
            self._any_of(_LITERALS)
        return 1

    def _members(self) -> None:
        self._take("^")
        some = False
        while not self._take("]"):
            if self._take("-"):
                # Only as the last is it itself to both.
                if not some or not self._take("]"):
                    raise _Other
                return
            first = self._any_of(_MEMBERS)
            if self._next() == "-" and self._pattern[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                last = self._any_of(_MEMBERS)
                if not any(first in each and last in each and first <= last for each in _RANGES):
                    raise _Other
            some = True
        if not some:
            raise _Other

    def _any_of(self, known: frozenset[str]) -> str:
        found = self._next()
        if found not in known:
            raise _Other
        self.at += 1
        return found

    def _next(self) -> str:
        return self._pattern[self.at : self.at + 1]

    def _take(self, wanted: str) -> bool:
        if self._next() != wanted:
            return False
        self.at += 1
        return True
