"""Findings: what a check says of the database, and what a check is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Severity = Literal["error", "warning", "note", "not checked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`problem` is one sentence with figures; `fix` the statements (ending in ``;``) and commands for it.

    `safe`: the fix is SQL that changes nothing but the fault, and does not keep anybody waiting for long.
    """

    severity: Severity
    subject: str
    problem: str
    fix: tuple[str, ...] = ()
    safe: bool = False
    check: str = ""
    """Its check's name, filled in by the examination."""

    @property
    def counts(self) -> bool:
        """Whether it makes the doctor's exit code 1."""
        return self.severity in ("error", "warning")

    def of(self, check: str) -> Finding:
        return replace(self, check=check)


class NotChecked(Exception):
    """A check cannot be made here; the text says why."""


def not_checked(why: str, subject: str = "") -> Finding:
    """For a check that could be made in part only."""
    return Finding("not checked", subject, why)


Look = Callable[..., Awaitable[Sequence[Finding]]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that fails silently: `title` says what, `look` finds it. Raises `NotChecked`.

    `look` takes the patient, and by name the limits that its check has.
    """

    name: str
    title: str
    look: Look


def check(title: str) -> Callable[[Look], Check]:
    """Make a check of an async function, whose name is the check's."""

    def made(look: Look) -> Check:
        name: Any = getattr(look, "__name__")  # noqa: B009
        return Check(name, title, look)

    return made
