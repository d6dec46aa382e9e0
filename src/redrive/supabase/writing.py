"""Writing: all that `redrive supabase init` would write, worked out before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redrive.app import Redrive
from redrive.errors import ConfigError
from redrive.supabase import arguments, config, edge, migration, project, schema, vault
from redrive.supabase.migration import Said
from redrive.supabase.plan import Options, Section
from redrive.supabase.project import APP, SCHEMA, Change, Project


@dataclass(frozen=True, slots=True)
class Plan:
    """What would change, what would not, and what there is to say.

    `left` names objects that earlier migrations made and the app does not have any more; `vault` the secrets
    that have to be there; `snippet` what config.toml needs where there is none to edit.
    """

    options: Options
    sections: tuple[Section, ...]
    changes: tuple[Change, ...]
    unchanged: tuple[Path, ...]
    left: tuple[str, ...]
    vault: tuple[str, ...]
    config_difference: str
    snippet: str
    notes: tuple[str, ...]
    next_steps: tuple[str, ...]

    def write(self) -> None:
        """Write every change or none. Raises `ConfigError`."""
        project.write(self.changes)


def plan(
    app: Redrive,
    given: Mapping[str, Any],
    *,
    out: str | None = None,
    anew: bool = False,
    now: datetime | None = None,
) -> Plan:
    """What `init` would do for `app` with the options that were `given` (None: not given).

    `out` None: the project that the working directory is in. `anew`: the options of the newest file do not
    count. Raises `ConfigError`, `InvalidArgument`: what cannot be made is refused before anything is written.
    """
    there = Project.find(Path.cwd()) if out is None else Project.at(_folder(out))
    newest = there.newest(APP)
    before = Said() if newest is None else Said.of(newest.text)
    options = arguments.options(given, None if anew else before.options)
    parts = tuple(migration.sections(app, options))
    needed = tuple(map(str, vault.names(app, options)))
    text = migration.text(parts, options=arguments.line(options), vault=needed, before=before)
    work = _Work(there)
    work.migrations({SCHEMA: schema.text(), APP: text}, now or datetime.now(UTC))
    functions = work.functions(app, options)
    work.configuration(functions, options)
    return Plan(
        options=options,
        sections=parts,
        changes=tuple(work.changes),
        unchanged=tuple(work.unchanged),
        left=Said.of(text).left,
        vault=needed,
        config_difference=work.difference,
        snippet=work.snippet,
        notes=(
            *_notes(there, app, options, remembered=not anew and before.options is not None),
            *work.notes,
        ),
        next_steps=tuple(_next_steps(there, options, functions)),
    )


class _Work:
    """Compares what there should be with what is there."""

    def __init__(self, there: Project) -> None:
        self._there = there
        self.changes: list[Change] = []
        self.unchanged: list[Path] = []
        self.difference = ""
        self.snippet = ""
        self.notes: list[str] = []

    def migrations(self, texts: Mapping[str, str], now: datetime) -> None:
        """A new file of a kind where the newest one says something else."""
        stamps = self._there.stamps(now)
        for kind, text in texts.items():
            found = self._there.newest(kind)
            if found is not None and found.text == text:
                self.unchanged.append(found.path)
            else:
                self.changes.append(Change(self._there.migrations / f"{next(stamps)}_{kind}.sql", text))

    def functions(self, app: Redrive, options: Options) -> list[str]:
        """The Edge Functions' files; the names of the functions."""
        files = edge.files(app, options)
        for name, file in files.items():
            path = self._there.functions / name
            old = project.read(path) if path.exists() else None
            if old is not None and file.users:
                self._miss(app, path.name, old)
            if old == file.text or (old is not None and file.users):
                self.unchanged.append(path)
            else:
                self.changes.append(Change(path, file.text))
        return list(dict.fromkeys(name.partition("/")[0] for name in files))

    def _miss(self, app: Redrive, name: str, text: str) -> None:
        """What the project has written says nothing of some queues."""
        missing = [queue for queue in sorted(app.jobs) if not re.search(rf"\b{re.escape(queue)}\b", text)]
        if missing:
            self.notes.append(f"{name} has no handler of {', '.join(missing)}: it is yours to write")

    def configuration(self, functions: Sequence[str], options: Options) -> None:
        """config.toml, edited; or what has to be in one."""
        if self._there.config is None:
            self.snippet = config.snippet(functions=functions, schema=options.api_schema)
            return
        old = project.read(self._there.config, strict=True)
        new = config.edited(old, functions=functions, schema=options.api_schema)
        self.difference = config.difference(old, new, "supabase/config.toml")
        if new != old:
            self.changes.append(Change(self._there.config, new))


def _notes(there: Project, app: Redrive, options: Options, *, remembered: bool) -> Iterator[str]:
    if remembered:
        yield f"options: {arguments.line(options)} (as in the newest file where not given; --anew forgets it)"
    if options.replace_recipe:
        for file in there.all(APP):
            if "--replace-recipe" not in (Said.of(file.text).options or ""):
                yield f"{file.path.name} stops where it finds the recipe: delete it if it was never applied"
    else:
        for name, made in there.recipe().items():
            yield (
                f"{name} makes {', '.join(made)}: the migration stops where it finds them; to take over "
                "their keys, leases and messages, run this again with --replace-recipe"
            )
    if app.rpcs and there.config and "public" not in config.exposed(project.read(there.config)):
        yield (
            f"nobody can call {', '.join(sorted(app.rpcs))}: config.toml does not list public in api.schemas"
        )


def _next_steps(there: Project, options: Options, functions: Sequence[str]) -> Iterator[str]:
    yield "supabase db push" if there.config else "apply the files in their order, as the project's own role"
    yield "redrive supabase secrets"
    for each in functions:
        yield f"supabase functions deploy {each}"
    if options.worker == "resident":
        yield "redrive worker, on any host"
    elif options.worker == "tick":
        yield "redrive serve, where cron can reach it"


def _folder(out: str) -> Path:
    folder = Path(out)
    if not out or (folder.exists() and not folder.is_dir()):
        raise ConfigError(f"--out {out!r} is no folder; name one, which is made where it is missing")
    return folder.absolute()
