"""``redrive doctor``: what fails silently in this database, and what mends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.declaring import named_app
from redrive.cli.options import DatabaseOption, JsonOption, YesOption
from redrive.cli.output import answer, answer_json, confirm, count, one_line, say
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import ConfigError, InvalidArgument

if TYPE_CHECKING:
    from redrive.watch.doctor import Check, Finding, Surroundings

# A comment, so that the line can be copied whole.
_SAFE = "  -- safe: --fix runs it"


def doctor(
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTR",
            help="Check this app's inboxes too. Default: REDRIVE_APP, else [tool.redrive] app.",
            show_default=False,
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE", help="The role that workers connect as. Default: yours.", show_default=False
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Worker processes there will be. Default: those that are seen.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Only this check; may be repeated.", show_default=False),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the checks, and check nothing.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended safely.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Find what fails silently: rights, leftovers, limits, clocks; print what mends it.

    Run it as the owner of schema redrive, who sees the most. It only reads, but with --fix: then it runs what
    is marked safe, each fix in a transaction of its own, and checks again. Notes do not count as findings.
    """
    checks = _chosen(only)
    if listed:
        _list(checks, as_json=as_json)
        return
    from redrive.watch.doctor import examine

    around = _surroundings(app, role, processes)
    with session(database, announce=not as_json) as store:
        found = asyncio.run(examine(store.url, around, checks))
        mended = _mend(store.url, around, checks, found, yes=yes, as_json=as_json) if fix else []
        if mended:
            found = asyncio.run(examine(store.url, around, checks))
    if as_json:
        answer_json([_row(each, fixed=True) for each in mended] + [_row(each, fixed=False) for each in found])
    else:
        _tell(found, len(checks), fix=fix)
    if any(each.counts for each in found):
        raise typer.Exit(1)


def _chosen(only: list[str] | None) -> Sequence[Check]:
    from redrive.watch.doctor import CHECKS

    known = {check.name: check for check in CHECKS}
    for name in only or ():
        if name not in known:
            meant = get_close_matches(name, known, n=1)
            hint = f"did you mean {meant[0]}?" if meant else "redrive doctor --list names them"
            raise InvalidArgument(f"there is no check {name!r}; {hint}")
    return [check for check in CHECKS if not only or check.name in only]


def _list(checks: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        answer_json([{"check": check.name, "title": check.title} for check in checks])
        return
    print_table(("check", "is fine when"), [(check.name, check.title) for check in checks], keep=("check",))


def _surroundings(app: str | None, role: str | None, processes: int | None) -> Surroundings:
    from redrive.watch.doctor import Surroundings

    named = named_app(app)
    if named is None:
        return Surroundings(role=role, processes=processes)
    from redrive.app import load_app

    try:
        inboxes = load_app(named.spec).inboxes
    except ConfigError as error:
        # The settings are everybody's; who looks after the database may not have the app's code.
        if named.source == "--app":
            raise
        say(f"{error}; {named.source} names that app, and its inboxes are not checked")
        return Surroundings(role=role, processes=processes)
    return Surroundings(role=role, inboxes=inboxes, processes=processes)


def _mend(
    url: str,
    around: Surroundings,
    checks: Sequence[Check],
    found: Sequence[Finding],
    *,
    yes: bool,
    as_json: bool,
) -> list[Finding]:
    """Run the safe fixes; those that went through."""
    from redrive.watch.doctor import examine, mend

    safe = [each for each in found if each.safe]
    if not safe:
        return []
    tell = say if as_json else answer
    for each in safe:
        tell(f"{each.check}: {each.problem}")
        for statement in each.fix:
            tell(f"    {statement}")
    confirm(f"Run {count(sum(len(each.fix) for each in safe), 'statement')}?", yes=yes)
    # The answer may have taken a while: what is mended is what is wrong now, by what was shown.
    shown = {(each.check, each.fix) for each in safe}
    again = [check for check in checks if check.name in {each.check for each in safe}]
    mended: list[Finding] = []
    for each in asyncio.run(examine(url, around, again)):
        if not each.safe or (each.check, each.fix) not in shown:
            continue
        failed = asyncio.run(mend(url, each))
        if failed is None:
            mended.append(each)
        else:
            say(f"redrive: {each.check} could not be mended: {failed}")
    tell(f"{count(len(mended), 'finding')} mended; checking again")
    return mended


def _tell(found: Sequence[Finding], checks: int, *, fix: bool) -> None:
    for each in found:
        if each.severity != "not checked":
            answer(f"{each.severity}: {each.check}: {each.problem}")
            for line in each.fix:
                answer(f"    {line}" + (_SAFE if each.safe else ""))
    for why, names in _unchecked(found).items():
        answer(f"not checked: {', '.join(names)}: {why}")
    findings = sum(each.counts for each in found)
    beside = [
        count(number, noun) if noun == "note" else f"{number:,} {noun}"
        for noun in ("note", "not checked")
        if (number := sum(each.severity == noun for each in found))
    ]
    answer(
        f"{count(checks, 'check')}, {count(findings, 'finding')}" + "".join(f", {each}" for each in beside)
    )
    if not fix and (safe := sum(each.safe for each in found)):
        say(f"redrive doctor --fix mends {safe:,} of them")


def _unchecked(found: Sequence[Finding]) -> dict[str, list[str]]:
    """The checks by the reason why they were not made."""
    reasons: dict[str, list[str]] = {}
    for each in found:
        if each.severity == "not checked":
            about = f"{each.check} ({each.subject})" if each.subject else each.check
            reasons.setdefault(one_line(each.problem, 300), []).append(about)
    return reasons


def _row(each: Finding, *, fixed: bool) -> dict[str, Any]:
    return {
        "check": each.check,
        "severity": each.severity,
        "subject": each.subject,
        "problem": each.problem,
        "fix": "\n".join(each.fix) or None,
        "safe": each.safe,
        "fixed": fixed,
    }
