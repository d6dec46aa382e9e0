"""FastPix' tables: fastpix.media, fastpix.live_streams, fastpix.uploads; see fastpix.sql."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString

from psycopg import sql

from redrive.errors import SetupError
from redrive.inbox.source import Connection, State, Stored
from redrive.inbox.sources.fastpix_states import COLUMNS, KEYS, Column, Kind, values
from redrive.store.script import quote

_SCRIPT = Path(__file__).with_name("fastpix.sql")
_VIEW = "webhook_events"
_OURS = ("state", "fetchedAt")
_TABLES: dict[Kind, str] = {"media": "media", "live_stream": "live_streams", "upload": "uploads"}
# A live stream that is idle rests; redrive's own words for an upload that is listed no more.
_FINAL: dict[Kind, tuple[str, ...]] = {
    "media": ("ready", "failed"),
    "live_stream": ("idle", "disabled"),
    "upload": ("media_created", "ended"),
}
_CASTS: dict[Column, LiteralString] = {
    "text": "text",
    "time": "timestamptz",
    "flag": "boolean",
    "number": "integer",
    "json": "jsonb",
}
_BATCH = 1_000


def schema(source: str) -> str:
    """The SQL that makes them, for inbox `source`; it refuses tables that are another's."""
    columns = [(_TABLES[kind], name) for kind in _TABLES for name in (KEYS[kind], *COLUMNS[kind], *_OURS)]
    columns += [("inbox", "source"), *((_VIEW, name) for name in ("eventId", "processStatus"))]
    listed = ", ".join(f"({quote(table)}, {quote(name)})" for table, name in columns)
    script = _SCRIPT.read_text(encoding="utf-8")
    # Another script is another view.
    comment = f"FastPix' events (redrive {hashlib.sha256(script.encode()).hexdigest()[:16]})"
    filled = {"{source}": quote(source), "{columns}": listed, "{comment}": quote(comment)}
    for name, value in filled.items():
        script = script.replace(name, value)
    return script


async def check(connection: Connection, source: str) -> None:
    """Raises `SetupError` when the tables are another inbox's."""
    found = await (await connection.execute('select "source" from fastpix.inbox')).fetchall()
    owners = {owner for (owner,) in found}
    if not owners:
        raise SetupError(
            "the tables of schema fastpix belong to no inbox; run `redrive migrate --app module:attribute`"
        )
    if owners != {source}:
        raise SetupError(
            f"the tables of schema fastpix are those of inbox {', '.join(sorted(owners))}, not of inbox "
            f"{source} alone: they hold one FastPix account; give each inbox of FastPix a database of its "
            f"own; where the inbox was only renamed: delete from fastpix.inbox where source <> '{source}', "
            "then run `redrive migrate --app` again"
        )


async def upsert(connection: Connection, kind: Kind, ident: str, state: State, at: datetime) -> None:
    """Write the whole row."""
    columns = COLUMNS[kind]
    names = [KEYS[kind], *columns, *_OURS]
    casts: list[LiteralString] = [
        "text",
        *(_CASTS[column] for column in columns.values()),
        "jsonb",
        "timestamptz",
    ]
    command = sql.SQL(
        "insert into {table} ({names}) values ({values}) on conflict ({key}) do update set {sets}"
    ).format(
        table=_table(kind),
        names=sql.SQL(", ").join(map(sql.Identifier, names)),
        values=sql.SQL(", ").join(sql.SQL("%s::" + each) for each in casts),
        key=sql.Identifier(KEYS[kind]),
        sets=sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names[1:]
        ),
    )
    whole = json.dumps(state, ensure_ascii=False)
    await connection.execute(command, (ident, *values(kind, state), whole, at))


async def delete(connection: Connection, kind: Kind, ident: str) -> None:
    await connection.execute(
        sql.SQL("delete from {} where {} = %s").format(_table(kind), sql.Identifier(KEYS[kind])), (ident,)
    )


async def end_upload(connection: Connection, ident: str, media: str | None, at: datetime) -> None:
    """Write that an upload is listed no more: it became `media`, as far as somebody said so, or it ended.

    Where nobody said so, a medium of the same id is what it became: FastPix gives direct uploads one id.
    """
    await connection.execute(_END_UPLOAD, {"id": ident, "media": media, "at": at})


async def known(connection: Connection, kind: Kind, since: datetime | None) -> AsyncIterator[Stored]:
    """The rows created since, and those not in a final state; with None every row. By id, in batches."""
    after = ""
    while True:
        command = sql.SQL(
            "select {columns} from {table} where {key} > %s and (%s::timestamptz is null"
            ' or "createdAt" >= %s or lower("status") is null or not lower("status") = any (%s))'
            " order by {key} limit %s"
        ).format(columns=_columns(kind), table=_table(kind), key=sql.Identifier(KEYS[kind]))
        final = list(_FINAL[kind])
        rows = await (await connection.execute(command, (after, since, since, final, _BATCH))).fetchall()
        for row in rows:
            yield _stored(kind, row)
        if len(rows) < _BATCH:
            return
        after = rows[-1][0]


async def stored(connection: Connection, kind: Kind, idents: Sequence[str]) -> Mapping[str, Stored]:
    """The rows of these ids, by resource."""
    command = sql.SQL("select {columns} from {table} where {key} = any (%s)").format(
        columns=_columns(kind), table=_table(kind), key=sql.Identifier(KEYS[kind])
    )
    rows = await (await connection.execute(command, (list(idents),))).fetchall()
    found = [_stored(kind, row) for row in rows]
    return {each.resource: each for each in found}


def _stored(kind: Kind, row: Sequence[Any]) -> Stored:
    ident, status, created, state, fetched = row
    return Stored(
        f"{kind}:{ident}",
        kind,
        # An upload's may be redrive's own word.
        {**state, "status": status} if status is not None else state,
        fetched,
        created=created,
        final=(status or "").lower() in _FINAL[kind],
        fetchable=kind != "upload",
    )


def _columns(kind: Kind) -> sql.Composed:
    names = (KEYS[kind], "status", "createdAt", "state", "fetchedAt")
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _table(kind: Kind) -> sql.Identifier:
    return sql.Identifier("fastpix", _TABLES[kind])


_END_UPLOAD = """
with became as (
    select coalesce(%(media)s::text, (select u."mediaId" from fastpix.uploads u where u."uploadId" = %(id)s),
                    (select m."id" from fastpix.media m where m."id" = %(id)s)) as media
)
insert into fastpix.uploads as u ("uploadId", "mediaId", "status", "state", "fetchedAt")
select %(id)s, media, case when media is null then 'ended' else 'media_created' end,
       jsonb_build_object('uploadId', %(id)s::text), %(at)s
  from became
 where media is not null or exists (select from fastpix.uploads u where u."uploadId" = %(id)s)
on conflict ("uploadId") do update
   set "mediaId" = excluded."mediaId", "status" = excluded."status", "fetchedAt" = excluded."fetchedAt"
"""
