"""``redrive supabase secrets``: what a project's jobs ask Vault for, put there and handed on.

Guarantees  a value comes from stdin, never from an argument, and is shown to nobody who did not ask for it.
"""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from redrive.app import load_app
from redrive.cli.declaring import app_name, named_app
from redrive.cli.options import AppOption, DatabaseOption, JsonOption, YesOption
from redrive.cli.output import answer, answer_json, confirm, say
from redrive.cli.session import Session, session
from redrive.cli.tables import print_table
from redrive.errors import ConfigError, InvalidArgument, SetupError
from redrive.store import vault
from redrive.store.database import connect
from redrive.supabase.vault import ALERTS, VaultName, about, names

app = typer.Typer(
    invoke_without_command=True,
    help="Secrets: the names in Vault that the jobs ask for, and what is there; never a value.",
)

_NAME = re.compile(r"(?!eyJ|sb_secret_|sb_publishable_)[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
# Neither a URL nor a key is longer.
_MOST = 65_536
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@%+=,~?&!*;-]+")
_WHILE_IT_IS = {
    "missing": "is missing",
    "empty": "is empty",
    "localhost": "is a URL with localhost, which from pg_net is the database's own container; this machine "
    "is host.docker.internal there",
}

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The secret's name in Vault.", show_default=False)
]


@app.callback()
def list_(
    context: typer.Context,
    app: AppOption = None,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """List the names in Vault that the project's jobs ask for, and whether each is there.

    Asks the jobs of pg_cron; where there are none yet, the app, with the options of the newest migration.
    """
    if context.invoked_subcommand is not None:
        if app or as_json or database:
            raise InvalidArgument(f"write options behind {context.invoked_subcommand}, not before it")
        return
    with session(database) as store:
        _demand_vault(store)
        wanted = _wanted(store, app)
        there = store.run(vault.states([each.name for each in wanted]))
    found = [(each, state) for each, (_, state) in zip(wanted, there, strict=True)]
    if as_json:
        answer_json(
            [
                {"name": each.name, "state": state, "needed_by": list(each.jobs), "about": each.about}
                for each, state in found
            ]
        )
        return
    rows = [
        (each.name, state, ", ".join(each.jobs) or "may be left out", each.about) for each, state in found
    ]
    print_table(("secret", "state", "needed by", "what it is"), rows, keep=("secret",), shed=("what it is",))
    for each, state in found:
        if state != "there" and (each.jobs or state != "missing"):
            say(f"{each.name} {_WHILE_IT_IS[state]}; run: redrive supabase secrets set {each.name}")


@app.command("set")
def set_(
    name: NameArgument,
    generate: Annotated[
        bool, typer.Option("--generate", help="A new random value, 32 bytes of it; nothing is read.")
    ] = False,
    yes: YesOption = False,
    database: DatabaseOption = None,
) -> None:
    """Put a secret into Vault: the value comes from stdin, or is asked for where that is a terminal.

    A last line break is left out. With --generate nobody sees the value; redrive supabase secrets env hands
    it on. One that is there already is then replaced only after a yes.
    """
    _check_name(name)
    value = secrets.token_urlsafe(32) if generate else _given(name)
    with session(database) as store:
        _demand_vault(store)
        if generate:
            [(_, state)] = store.run(vault.states([name]))
            if state != "missing":
                confirm(
                    f"Replace secret {name} of Vault? Whoever has the old value is refused then.", yes=yes
                )
        with connect(store.url) as connection:
            new = vault.put(connection, name, value)
        _warn(name, value, store)
    answer(f"Vault has {'a' if new else 'another'} secret {name}{' now' if new else ''}")


@app.command()
def env(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Names of secrets in Vault.", show_default=False)
    ],
    show: Annotated[bool, typer.Option("--show", help="Also on a terminal.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Print secrets of Vault as lines NAME=value in capitals, for a program that takes an environment.

    Not on a terminal: pipe it into Supabase's secrets set --env-file /dev/stdin, or give Docker's --env-file
    the other end of a pipe, and no file and no log has it.
    """
    for name in names:
        _check_name(name)
    if _on_a_terminal() and not show:
        raise ConfigError(
            "stdout is a terminal, where anybody may look on; pipe it to the program that needs it, or add "
            "--show"
        )
    with session(database) as store:
        _demand_vault(store)
        with connect(store.url) as connection:
            found = [(name, vault.read(connection, name)) for name in names]
    for name, value in found:
        if value is None or not value.strip():
            raise ConfigError(f"Vault has no secret {name}; run: redrive supabase secrets set {name}")
        if not _PLAIN.fullmatch(value.strip()):
            raise ConfigError(
                f"secret {name} has white space, quotes, #, $ or the like, which no two programs read alike "
                "in an environment; hand it on by other means"
            )
    for name, value in found:
        text = cast("str", value).strip()
        variable = re.sub(r"[^A-Z0-9_]", "_", name.upper())
        sys.stdout.write(f"{variable}={text}\n")
    sys.stdout.flush()


def _on_a_terminal() -> bool:
    return sys.stdout.isatty()


def _wanted(store: Session, given: str | None) -> list[VaultName]:
    """What the jobs in the database ask for; without any, what those of the app would."""
    jobs: dict[str, list[str]] = {}
    urls: set[str] = set()
    for each in store.run(vault.asked()) if store.run(vault.HAS_CRON) else []:
        jobs.setdefault(each.name, []).append(each.job)
        urls |= {each.name} if each.kind == "url" else set()
    if jobs and given is None:
        found = [VaultName(name, about(name, url=name in urls), tuple(of)) for name, of in jobs.items()]
        return [*found, VaultName(ALERTS, about(ALERTS))]
    if given is None and named_app(None) is None:
        say("no job of pg_cron asks for a secret, and no app is named")
        return [VaultName(ALERTS, about(ALERTS))]
    from redrive.supabase import arguments
    from redrive.supabase.migration import Said
    from redrive.supabase.project import APP, Project

    remembered = None
    try:
        newest = Project.find(Path.cwd()).newest(APP)
        remembered = None if newest is None else Said.of(newest.text).options
    except ConfigError:
        pass  # in no project: with the options that init would have
    return list(names(load_app(app_name(given)), arguments.options({}, remembered)))


def _demand_vault(store: Session) -> None:
    if not store.run(vault.HAS_VAULT):
        raise SetupError(
            "Vault is not installed in this database; on Supabase run: create extension supabase_vault"
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "NAME is the name of a secret in Vault, 1 to 100 letters, digits, _ . or -, not its value"
        )


def _given(name: str) -> str:
    """The value, from stdin. Raises `InvalidArgument`."""
    if cast("object", sys.stdin) is None:
        raise InvalidArgument("stdin is closed; pipe the value in")
    if sys.stdin.isatty():
        text = cast("str", typer.prompt(f"Value of {name}", hide_input=True, err=True))
    else:
        try:
            text = sys.stdin.buffer.read(_MOST + 1).decode()
        except UnicodeDecodeError:
            raise InvalidArgument(f"the value of {name} is no UTF-8 text") from None
    value = re.sub(r"\r?\n\Z", "", text)
    if not value.strip():
        raise InvalidArgument(
            f"the value of {name} is empty; pipe it into redrive supabase secrets set {name}"
        )
    if len(value) > _MOST or "\x00" in value:
        raise InvalidArgument(f"the value of {name} is longer than {_MOST} bytes, or holds a zero byte")
    return value


def _warn(name: str, value: str, store: Session) -> None:
    if value != value.strip():
        say(f"the value of {name} has white space around it, which is stored; jobs leave it out")
    if "\n" in value.strip():
        say(f"the value of {name} has several lines: neither a URL nor a key has")
    [(_, state)] = store.run(vault.states([name]))
    if state == "localhost":
        say(f"{name} {_WHILE_IT_IS[state]}")
