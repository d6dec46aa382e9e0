"""Which regular expressions mean the same to pydantic and to Postgres."""

from __future__ import annotations

import pytest

from redrive.supabase.patterns import understood


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z][a-z0-9_]{0,62}$",
        "^[^@ ]+@[^@ ]+\\.[a-z]{2,}$",
        "^(a|b|(?:cd)+)$",
        "#[0-9a-fA-F]{6}",
        "^$",
        "^a|b$",
        "^[A-Z]{2}[0-9]{2}(-[0-9]+)?$",
        "^[a-z.-]+$",
        "^https://[a-z]+/.\\?".replace("/.", "/\\."),
    ],
)
def test_the_common_language(pattern: str) -> None:
    assert understood(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a.", "\\d", "\\w+", "\\bx", "\\n", "\\x41", "\\pL", "a+?", "a**", "a{2}{3}", "*a", "^*", "a|*",
        "(?i)a", "(?=a)", "(?P<n>a)", "(?<n>a)", "a$b", "a^b", "(a", "a)", "(a|)", "|a", "()", "***=a", "é",
        "[a", "[]", "[]a]", "[^]", "[z-a]", "[a-Z]", "[A-z]", "[a-]b-]", "[-a]", "[[:alpha:]]", "[a&&b]",
        "[a--b]", "[\\d]", "a\n", "a{256}", "a{2,1}", "a{0}", "a{,2}", "a{x}", "{2}",
        "(a{200}){200}", "]", "}",
    ],
)  # fmt: skip
def test_what_one_of_them_reads_otherwise_or_not_at_all(pattern: str) -> None:
    assert not understood(pattern)
