"""safeupdate's rule, read off a text: an UPDATE or DELETE without WHERE, in a CTE or a string as well.

Supabase loads the library for every request over its API; no Debian or PyPI package brings it. The reader
errs on the safe side: a statement put together from several strings counts as one without.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$|\"(?:[^\"]|\"\")*\"|\w+|[();]", re.DOTALL)
# `do update set`, `for update`, `grant update` and a trigger's `after update` are no statements of their own.
_BEGIN = re.compile(
    r"update\s+(?:only\s+)?(?!set\b)[^\s;()]+(?:\s+(?:as\s+)?\w+)?\s+set\b|delete\s+from\b", re.IGNORECASE
)
# Ends before its table, or before SET: the rest comes from another string.
_TORN = re.compile(
    r"\b(?:(?<!for )(?<!key )(?<!do )update\s+(?:only\s+)?(?:[^\s;()]+\s+)?|delete\s+(?:from\s+)?)$",
    re.IGNORECASE,
)


def unguarded(text: str) -> list[str]:
    """Each UPDATE or DELETE in `text` that has no WHERE of its own, in one line."""
    text = _COMMENT.sub(lambda comment: " " * len(comment.group()), text)
    tokens = list(_TOKEN.finditer(text))
    found: list[str] = []
    for number, token in enumerate(tokens):
        word = token.group()
        if word[0] in "'$":
            inside = _inside(word)
            torn = _TORN.search(inside)
            found += [*unguarded(inside), *([torn.group()] if torn else [])]
        elif _BEGIN.match(text, token.start()):
            guarded, end = _rest(tokens[number:])
            if not guarded:
                found.append(" ".join(text[token.start() : end].split()))
    return found


def _inside(literal: str) -> str:
    if literal[0] == "'":
        return literal[1:-1].replace("''", "'")
    tag = literal[: literal.index("$", 1) + 1]
    return literal[len(tag) : -len(tag)]


def _rest(tokens: list[re.Match[str]]) -> tuple[bool, int]:
    """Whether the statement that begins with `tokens` has a WHERE at its own level, and where it ends."""
    depth = 0
    for token in tokens:
        match token.group().lower():
            case "(":
                depth += 1
            case ")" if depth:
                depth -= 1
            case ")" | ";" | "loop" if not depth:
                return False, token.start()
            case "where" if not depth:
                return True, token.start()
            case _:
                pass
    return False, tokens[-1].end()
