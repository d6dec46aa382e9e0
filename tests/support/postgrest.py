"""PostgREST, as far as its clients' functions go: names of arguments choose one, JSON becomes its arguments.

`Postgrest` answers without HTTP; `serving` puts it on a port of this machine, where it may fail on
purpose.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, cast

import psycopg
from psycopg import sql

from redrive.supabase.wrappers import section
from tests.support.project import Project

# What a call meets: an answer of that status; silence, or the end of the connection; "held" and "lost" are
# these two after it was done.
Trouble = int | Literal["silence", "cut", "held", "lost"]
Arguments = Mapping[str, Any]

SECRET = "sb_secret_for_tests"
PUBLISHABLE = "sb_publishable_for_tests"
LEGACY = "eyJ.legacy.service_role"
_ROLES = {SECRET: "service_role", PUBLISHABLE: "anon", LEGACY: "service_role"}

_FUNCTIONS = """
select p.proname, n.names, n.names[1 : p.pronargs - p.pronargdefaults] as needed,
       array(select format_type(t.id, null) from unnest(p.proargtypes) with ordinality t(id, place)
              order by place) as types,
       p.proretset as many, p.prorettype = 'void'::regtype as nothing
  from pg_proc p
 cross join lateral (select coalesce(array_agg(a.name order by a.place), '{}') as names
                       from unnest(p.proargnames, p.proargmodes) with ordinality a(name, mode, place)
                      where a.mode is null or a.mode in ('i', 'b', 'v')) n
 where p.pronamespace = %s::regnamespace and p.proname = %s and cardinality(n.names) = p.pronargs
"""


def install(project: Project, schema: str = "api") -> None:
    """The wrappers, as a migration makes them."""
    with psycopg.connect(project.url) as connection:
        connection.execute("set local search_path = ''")
        connection.execute(section(schema).sql.encode())


@dataclass(slots=True)
class Postgrest:
    """`calls` are those that came, in their order; `trouble` says what the next of a name meets."""

    project: Project
    schema: str = "api"
    calls: list[tuple[str, Arguments]] = field(default_factory=list[tuple[str, Arguments]])
    trouble: Callable[[str, Arguments], Trouble | None] = lambda name, arguments: None
    _known: dict[tuple[str, str, str], list[Any]] = field(
        default_factory=dict[tuple[str, str, str], "list[Any]"]
    )

    def call(
        self, name: str, arguments: Arguments, role: str = "service_role", schema: str | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of a POST to ``/rpc/NAME``."""
        self.calls.append((name, arguments))
        schema = schema or self.schema
        given = arguments.keys()
        fits = [each for each in self._named(schema, name) if set(each.needed) <= given <= set(each.names)]
        if len(fits) != 1:
            what = (
                "Could not find the function" if not fits else "Could not choose the best candidate function"
            )
            status, code = (404, "PGRST202") if not fits else (300, "PGRST203")
            return status, {"code": code, "message": f"{what} {schema}.{name}({', '.join(arguments)})"}
        try:
            with self.project.api(role, schema=schema) as request:
                row = request.execute(
                    _statement(schema, fits[0], arguments), [json.dumps(arguments)]
                ).fetchone()
        except psycopg.Error as error:
            return _status(error), {
                "code": error.sqlstate,
                "message": error.diag.message_primary or str(error),
            }
        return (204, None) if fits[0].nothing else (200, cast("tuple[Any]", row)[0])

    def _named(self, schema: str, name: str) -> list[Any]:
        """The functions of that name: looked up once, as PostgREST keeps a schema's."""
        place = (self.project.name, schema, name)
        if place not in self._known:
            self._known[place] = self.project.read(_FUNCTIONS, [schema, name])
        return self._known[place]


def _statement(schema: str, function: Any, arguments: Arguments) -> sql.Composed:
    types = dict(zip(function.names, function.types, strict=True))
    given = sql.SQL(", ").join(sql.SQL("{0} := body.{0}").format(sql.Identifier(name)) for name in arguments)
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(types[name])) for name in arguments
    )
    body = (
        sql.SQL("json_to_record(%s::json) as body({})").format(columns)
        if arguments
        else sql.SQL("(select %s::text) body")
    )
    call = sql.SQL("{}.{}({})").format(sql.Identifier(schema), sql.Identifier(function.proname), given)
    if function.many:
        answer = "select coalesce(json_agg(c), '[]') from {} cross join lateral {} c"
    elif function.nothing:
        answer = "select {1}::text from {0}"
    else:
        answer = "select to_json({1}) from {0}"
    return sql.SQL(answer).format(body, call)


def _status(error: psycopg.Error) -> int:
    state = error.sqlstate or "08000"
    exact = {"42501": 403, "23505": 409, "P0001": 400, "22023": 400}
    if state.startswith("PT"):
        return int(state[2:])
    return exact.get(state) or {"08": 503, "53": 503, "40": 500, "P0": 500, "57": 500, "55": 500}.get(
        state[:2], 400
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        api = cast("_Server", self.server).api
        name = self.path.removeprefix("/rest/v1/rpc/")
        key = self.headers.get("apikey", "")
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        # As the gateway does: a key of the new kind is none in the header of the old.
        if key not in _ROLES or bearer not in ("", LEGACY) or (key == LEGACY and bearer != LEGACY):
            self._answer(401, {"message": "Invalid API key"})
            return
        arguments = cast("dict[str, Any]", json.loads(body))
        match api.trouble(name, arguments):
            case int(status):
                api.calls.append((name, arguments))
                self._answer(status, {"message": "trouble, on purpose"})
            case "silence":
                api.calls.append((name, arguments))
                time.sleep(30)
            case "cut":
                api.calls.append((name, arguments))
                self.close_connection = True
            case "held" | "lost" as then:
                api.call(name, arguments, _ROLES[key], self.headers.get("content-profile"))
                if then == "held":
                    time.sleep(30)
                self.close_connection = True
            case None:
                self._answer(*api.call(name, arguments, _ROLES[key], self.headers.get("content-profile")))

    def _answer(self, status: int, answer: object) -> None:
        body = b"" if status == 204 else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test says itself what it wants to know."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: Postgrest) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed has hung up."""


@contextmanager
def serving(api: Postgrest) -> Generator[str]:
    """The URL that a function finds in SUPABASE_URL."""
    server = _Server(api)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
