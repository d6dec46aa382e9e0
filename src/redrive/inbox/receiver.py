"""Receiver: one request in, one answer out: read, verify, record with its job, and only then say yes.

    bounded body ─▶ unpacked within the bound ─▶ signature over the bytes as received ─▶ handshake? answered
      └ 413 408       └ 413                        └ 401, counted                            │ no
        400 503                                                                              ▼
                                        200 ok / duplicate / conflict ◀─ one call ◀─ id, type, resource
                                        503: the database

Guarantees  2xx only after event and job are committed; signed means recorded: what jsonb cannot hold is kept
            raw, in the same request; a request that is refused touches no database;
            an answer within two seconds of the body's end, whatever the network does; a body of megabytes is
            given a second more for every four;
            never a 5xx because of what the sender sent.
Not given   that a 503 has not recorded it: the call goes on, and the sender's repeat is found to be one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from redrive.errors import ConfigError, QueueMissing, SetupError, SignatureError, Unavailable
from redrive.inbox import body as bodies
from redrive.inbox.body import Budget, ReceiveMessage, Share
from redrive.inbox.examine import Examined, examine
from redrive.inbox.inbox import Inbox
from redrive.inbox.recorder import Recorder, allowance
from redrive.inbox.refusals import Refusals
from redrive.inbox.secrets import resolve
from redrive.store import events
from redrive.store.database import Database
from redrive.store.events import Received
from redrive.store.statement import Statement

log = logging.getLogger("redrive.inbox")

Headers = Sequence[tuple[bytes, bytes]]

# Bodies of all requests at once, in one process.
BUDGET = 256 * 1024 * 1024
READ_WITHIN = 30.0
# The answer of the database, or 503: some senders wait 3 s for all of it.
_ANSWER_WITHIN = 1.8
# Looking at as much holds up the event loop for two or three milliseconds: what is larger, a thread does.
# Unpacking and the signature then leave the loop free; parsing does not (a second for 25 MB), but is done
# only of what signed is parsed.
_LARGE = 256 * 1024
_RETRY_AFTER = ((b"retry-after", b"5"),)
_TOLD_EVERY = 30.0
_CLOSING = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: bytes = b"text/plain; charset=utf-8"
    headers: tuple[tuple[bytes, bytes], ...] = ()


OK = Answer(200, b"ok\n")
DUPLICATE = Answer(200, b"duplicate\n")
CONFLICT = Answer(200, b"conflict\n")
UNKNOWN = Answer(404, b"there is no such inbox\n")
TOO_LARGE = Answer(413, b"too large\n")
TOO_SLOW = Answer(408, b"the body did not arrive in time\n", headers=((b"connection", b"close"),))
BROKEN = Answer(400, b"malformed\n")
LATER = Answer(503, b"try again later\n", headers=_RETRY_AFTER)


class Receiver:
    """The inboxes of an app. `clock` is seconds since the epoch, what signatures' times are held against.

    Raises `ConfigError` for a secret that is absent or cannot be right, naming its setting.
    """

    def __init__(
        self,
        inboxes: Mapping[str, Inbox],
        database: Callable[[], Database],
        *,
        clock: Callable[[], float] = time.time,
        budget: int = BUDGET,
        read_within: float = READ_WITHIN,
    ) -> None:
        self._inboxes = inboxes
        self._database = database
        self._clock = clock
        self._budget = Budget(budget)
        # A part of its own: large bodies that never end must not keep small ones out.
        self._reserved = Budget(budget // 4)
        self._read_within = read_within
        self._secrets = {
            source: resolve(source, inbox.provider.name, inbox.secret, inbox.config)
            for source, inbox in inboxes.items()
        }
        self.refusals = Refusals(database, clock)
        self._recorder = Recorder(database)
        self._threads: ThreadPoolExecutor | None = None
        self._told: dict[str, float] = {}
        self._away = False
        """The log says that the database does not answer."""

    def name_database(self) -> None:
        """Look up which database it is, without connecting. Raises `ConfigError` when none is named."""
        self._database()

    async def receive(
        self, source: str, headers: Headers, stream: ReceiveMessage, url: Callable[[], str]
    ) -> Answer | None:
        """The answer to one POST; None when there is nobody left to answer. `url` is where it was sent to."""
        inbox = self._inboxes.get(source)
        if inbox is None:
            return UNKNOWN
        share = Share(self._reserved if bodies.is_small(headers) else self._budget)
        try:
            return await self._received(inbox, headers, stream, url, share)
        except bodies.Gone:
            return None
        except asyncio.CancelledError:
            # The server is at its end, and waits for this body no longer.
            return LATER
        except bodies.TooLarge as error:
            detail = f"{error.size:,} bytes or more; this inbox takes {inbox.limit:,}"
            self.refusals.note(source, "too_large", detail, headers, b"", error.size)
            return TOO_LARGE
        except bodies.TooSlow:
            return TOO_SLOW
        except bodies.Broken:
            return BROKEN
        except bodies.NoRoom:
            self._tell("no_room", logging.WARNING, "there is no room for another body; 503")
            return LATER
        except Exception:
            log.exception("inbox %s: receiving failed; 503", source, extra=_EXTRA)
            return LATER
        finally:
            share.release()

    async def problem(self) -> str | None:
        """Why nothing can be recorded now, in a few words for anybody; None: it can. The log says more.

        Without an inbox it can be whenever the database answers.
        """
        queues = sorted({inbox.queue for inbox in self._inboxes.values()})
        statement: Statement[Any] = events.check_inbox(queues) if queues else events.now()
        call = asyncio.ensure_future(self._database().run(statement, deadline=2 * _ANSWER_WITHIN))
        # It goes on: whoever cannot connect says why only after that.
        call.add_done_callback(self._asked)
        done, _ = await asyncio.wait({call}, timeout=_ANSWER_WITHIN)
        error = call.exception() if done else Unavailable("it has not answered in time")
        if error is None:
            return None
        return _SILENT if isinstance(error, Unavailable) else "webhooks cannot be recorded"

    def _asked(self, call: asyncio.Future[Any]) -> None:
        if not call.cancelled() and (error := call.exception()) is not None:
            self._tell("not ready", logging.WARNING, "not ready: %s", error)

    async def close(self) -> None:
        """Let what is being recorded end, and tell what was refused; two seconds each at most."""
        await self._recorder.close(_CLOSING)
        await self.refusals.close(_CLOSING)
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def _received(
        self, inbox: Inbox, headers: Headers, stream: ReceiveMessage, url: Callable[[], str], share: Share
    ) -> Answer:
        raw = await bodies.read(stream, headers, share, limit=inbox.limit, within=self._read_within)
        now = self._clock()
        try:
            found = await self._examined(inbox, headers, raw, url, now)
        except SignatureError as error:
            self.refusals.note(inbox.source, error.reason, str(error), headers, raw, len(raw))
            return Answer(401, error.reason.encode() + b"\n")
        # Read or unpacked, it is held a second time until it is recorded.
        share.take(len(found.payload or ""))
        if found.handshake is not None:
            return Answer(200, found.handshake.body, found.handshake.content_type.encode())
        if found.secret:
            self._tell(
                f"secret {inbox.source}",
                logging.INFO,
                "inbox %s: still signed with an old secret: %s",
                inbox.source,
                self._secrets[inbox.source].name_at(now, found.secret),
            )
        return await self._recorded(inbox, found, share)

    async def _examined(
        self, inbox: Inbox, headers: Headers, raw: bytes, url: Callable[[], str], now: float
    ) -> Examined:
        secrets = self._secrets[inbox.source]
        where = inbox.public(url()) if inbox.signs_url else None
        encoding = bodies.encoding_of(headers)
        if len(raw) <= _LARGE and not encoding:
            return examine(inbox, secrets, headers, raw, encoding, where, now)
        if self._threads is None:
            # Two: what a body becomes when it is parsed is many times its size.
            self._threads = ThreadPoolExecutor(2, thread_name_prefix="redrive-inbox")
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, examine, inbox, secrets, headers, raw, encoding, where, now
        )

    # --- recording ---

    async def _recorded(self, inbox: Inbox, found: Examined, share: Share) -> Answer:
        call = self._recorder.record(inbox, found)
        within = _ANSWER_WITHIN + allowance(found)
        done, _ = await asyncio.wait({call}, timeout=within)
        if not done:
            # It goes on: cut off, a slow database would never get any event recorded. Its bytes still count.
            kept = share.handed_on()
            call.add_done_callback(lambda ended: self._late(ended, kept))
            self._away |= self._tell(
                "slow", logging.WARNING, "the database has not answered in %.1f s; 503", within
            )
            return LATER
        try:
            answer = call.result()
        except Unavailable as error:
            self._away |= self._tell("unavailable", logging.WARNING, "%s; 503", error)
            return LATER
        except (ConfigError, SetupError, QueueMissing) as error:
            self._tell(f"setup {inbox.source}", logging.ERROR, "inbox %s: %s; 503", inbox.source, error)
            return LATER
        except Exception as error:
            # The sender can do nothing about it but try again, and shall.
            log.error("inbox %s: recording failed; 503", inbox.source, exc_info=error, extra=_EXTRA)
            return LATER
        if self._away:
            self._away = False
            log.info("the database is back", extra=_EXTRA)
        if answer.conflict:
            return CONFLICT
        return DUPLICATE if answer.duplicate else OK

    def _late(self, call: asyncio.Future[Received], share: Share) -> None:
        share.release()
        if not call.cancelled() and (error := call.exception()) is not None:
            # Whoever cannot connect says why only after the answer was due.
            self._away |= self._tell("late", logging.WARNING, "answered 503, for: %s", error)

    def _tell(self, kind: str, level: int, text: str, *values: object) -> bool:
        """Once in a while: a database that is away for an hour is one event, not a line for each request.

        Whether it was said now.
        """
        now = time.monotonic()
        if now - self._told.get(kind, -_TOLD_EVERY) < _TOLD_EVERY:
            return False
        self._told[kind] = now
        log.log(level, text, *values, extra=_EXTRA)
        return True


_EXTRA = {"event": "inbox"}
_SILENT = "the database does not answer"
