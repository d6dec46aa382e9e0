"""Case: a dead letter pulled out of its database, as a test that fails until its bug is fixed.

    # once, in a shell with the production database's URL in REDRIVE_DATABASE_URL
    dead_letter_case("email_jobs", 17).save("tests/cases/template_missing.json")

    # from then on, in a test
    assert await run_case(app, load_case("tests/cases/template_missing.json")) == Ran(done=1)

Guarantees  the dead letter is only read; the file has the payload as it was sent: look at it before you
            commit it, it may hold somebody's data.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from redrive import payload as payloads
from redrive.app import Redrive
from redrive.errors import ConfigError, InvalidArgument
from redrive.settings import choose_database, load_settings
from redrive.store import dead_letters, events
from redrive.store.embedded import EmbeddedServer
from redrive.store.statement import Statement
from redrive.testing.database import ask, database_of
from redrive.testing.idle import Ran, run_until_idle
from redrive.worker.worker import chosen

_OURS = "x-redrive-"
_EVENT = f"{_OURS}event"
# An event's payload has no limit of its own.
_LARGEST = 2**40


@dataclass(frozen=True, slots=True)
class Case:
    """`payload`, `key` and `headers` are what `run_case` sends; the rest tells how it died.

    `event`, of a webhook: what its record says beside the payload, which `run_case` receives again.
    """

    queue: str
    payload: Any
    key: str | None = None
    headers: dict[str, Any] = field(default_factory=lambda: {})
    reason: str | None = None
    error: str | None = None
    attempts: int | None = None
    failures: list[dict[str, Any]] = field(default_factory=lambda: [])
    event: dict[str, Any] | None = None

    def save(self, path: str | Path) -> Path:
        """Write it to a JSON file, whose directory is made when it is missing; the file's path."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        return file


def dead_letter_case(queue: str, dead_id: int, url: str | None = None) -> Case:
    """The dead letter `dead_id` (as `redrive dlq list` shows it) of `queue`.

    `url` None: the database that redrive's settings name. Raises `InvalidArgument` when there is no such dead
    letter, `QueueMissing`, `ConfigError` when no database is named, `Unavailable`.
    """
    with _opened(url) as found:
        page = ask(found, dead_letters.page(queue, after=dead_id - 1, limit=1))
        if not page or page[0].dead_id != dead_id:
            raise InvalidArgument(
                f"queue {queue} has no dead letter {dead_id}; `redrive dlq list {queue}` shows what there is"
            )
        letter = page[0]
        named = (letter.headers or {}).get(_EVENT)
        record = ask(found, events.load(named)) if isinstance(named, str) else None
    return Case(
        queue=queue,
        payload=letter.payload,
        key=letter.key,
        headers={n: value for n, value in (letter.headers or {}).items() if not n.startswith(_OURS)},
        reason=letter.reason,
        error=letter.error,
        attempts=letter.attempts,
        failures=letter.failures,
        event=None if record is None else _kept(record),
    )


def load_case(path: str | Path) -> Case:
    """Read what `Case.save` wrote. Raises `ConfigError` when the file is no case."""
    try:
        values: object = json.loads(Path(path).read_text(encoding="utf-8"))
        known = {each.name for each in fields(Case)}
        if not isinstance(values, dict) or not {"queue", "payload"} <= values.keys() <= known:
            raise ValueError(f"it must be an object with queue and payload, and perhaps {', '.join(known)}")
        return Case(**cast("dict[str, Any]", values))
    except ValueError as error:
        raise ConfigError(f"{path} is no case: {error}; write it with Case.save") from error


async def run_case(app: Redrive, case: Case, *, timeout: float = 30.0) -> Ran:
    """Send the case's payload to its queue in the test database, run it; what came of it.

    That of a webhook is received as its event: once, as `receive_event` does, and replayed the next time. A
    handler that fails with attempts left is `retried`. Raises as `run_until_idle`.
    """
    chosen(app.jobs, (case.queue,))
    # Before anything is sent: what is no test's database gets nothing.
    database_of(app)
    if case.event is None:
        await app.send(case.queue, case.payload, key=case.key, headers=case.headers or None)
    else:
        received = await app.database.run(_receipt(case, case.event))
        if received.duplicate:
            await app.database.run(events.replay([received.id]))
    return await run_until_idle(app, queues=[case.queue], timeout=timeout)


def _kept(record: events.Recorded) -> dict[str, Any]:
    """What a case keeps of an event; `json`: its payload is the message's, else there is only the body."""
    return {
        "source": record.source,
        "event_id": record.event_id,
        "type": record.type,
        "resource": record.resource,
        "headers": record.headers or {},
        "origin": record.origin,
        "json": record.payload is not None,
        "raw_base64": base64.b64encode(record.raw).decode(),
    }


def _receipt(case: Case, event: Mapping[str, Any]) -> Statement[events.Received]:
    return events.receive(
        event["source"],
        event["event_id"],
        event["type"],
        payloads.encode(case.payload, limit=_LARGEST) if event["json"] else None,
        base64.b64decode(event["raw_base64"]),
        event["headers"],
        case.queue,
        resource=event["resource"],
        origin=event["origin"],
    )


@contextmanager
def _opened(url: str | None) -> Generator[str]:
    if url is not None:
        yield url
        return
    choice = choose_database(load_settings())
    if choice.url is not None:
        yield choice.url
        return
    with EmbeddedServer(choice.directory) as server:
        yield server.url
