"""Connection: what stands between redrive and its server, and what a session begins with."""

from __future__ import annotations

import time
from collections.abc import Callable

from redrive.errors import RedriveError
from redrive.store.url import parse
from redrive.watch.doctor.defaults import default, milliseconds
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.patient import Patient, connect

# What Supabase, for one, gives its transaction pooler.
_POOLER_PORT = 6543
_OFF = (
    "LISTEN hears nothing through it, so that workers find new messages by polling (every 2 s when idle); "
    "give workers "
    "a direct or session-mode URL"
)


@check("whether a transaction pooler stands in between, and what is off because of it")
async def pooler(patient: Patient) -> list[Finding]:
    port = int(parse(patient.url).get("port") or 5432)
    pooled = await _changes_hands(patient)
    if pooled:
        problem = (
            f"this connection goes through a transaction pooler: two transactions of it were two sessions; "
            f"{_OFF}"
        )
    elif port == _POOLER_PORT:
        problem = f"port {port} is a transaction pooler's, by custom; {_OFF}"
    elif await _has_another_key(patient):
        problem = "this connection goes through a pooler, in session mode as it seems: nothing is off"
    else:
        return []
    return [Finding("note", "connection", problem)]


async def _changes_hands(patient: Patient) -> bool:
    """Whether a session is shared: a second client, in a transaction, takes what the first had.

    A session of one's own keeps its process, and no other client ever has it.
    """
    before = (await patient.row("select pg_backend_pid() as pid")).pid
    try:
        other = await connect(patient.url)
    except RedriveError as error:
        raise NotChecked(f"a second connection was refused: {error}") from error
    try:
        await other.execute("begin read only")
        cursor = await other.execute("select pg_backend_pid() as pid")
        [taken] = await cursor.fetchall()
        after = (await patient.row("select pg_backend_pid() as pid")).pid
        await other.execute("rollback")
    finally:
        await other.close()
    return taken.pid == before or after != before


async def _has_another_key(patient: Patient) -> bool:
    """Whether the server's process is not the one that cancel requests were promised to reach."""
    found = await patient.row("select pg_backend_pid() as pid")
    return found.pid != patient.connection.info.backend_pid


@check("the server is the primary, and sessions may write")
async def read_only(patient: Patient) -> list[Finding]:
    found = await patient.row("select pg_is_in_recovery() as replica")
    if found.replica:
        problem = (
            "this server is a read replica: nothing can be sent, claimed or settled here; name the primary"
        )
        return [Finding("error", "server", problem)]
    said = await default(patient, "default_transaction_read_only")
    if said.value not in ("on", "true", "yes", "1"):
        return []
    problem = f"default_transaction_read_only is on for {said.where}: nothing can be sent, claimed or settled"
    return [Finding("error", said.where, problem, (said.alter("default_transaction_read_only", "off"),))]


@check("transactions are read committed by default")
async def isolation(patient: Patient) -> list[Finding]:
    said = await default(patient, "default_transaction_isolation")
    if said.value == "read committed":
        return []
    problem = (
        f"default_transaction_isolation is {said.value} for {said.where}: claims and sends at the same time "
        f"fail with "
        "serialization errors, and are run again and again"
    )
    fix = said.alter("default_transaction_isolation", "'read committed'")
    return [Finding("warning", said.where, problem, (fix,))]


@check("the role's statement_timeout leaves redrive the time it needs")
async def statement_timeout(patient: Patient) -> list[Finding]:
    said = await default(patient, "statement_timeout")
    value = await milliseconds(patient, said.value)
    if not 0 < value < 5000:
        return []
    problem = f"statement_timeout is {said.value} for {said.where}: claims of large batches may be cut off"
    fix = f"alter role {patient.ident(patient.role)} set statement_timeout = '30s';"
    return [Finding("note", said.where, problem, (fix,))]


@check("the workers' role has a limit for idle transactions")
async def idle_timeout(patient: Patient) -> list[Finding]:
    said = await default(patient, "idle_in_transaction_session_timeout")
    if await milliseconds(patient, said.value) > 0:
        return []
    role = patient.ident(patient.role)
    problem = (
        f"role {role} has no idle_in_transaction_session_timeout: a handler that hangs in a transaction "
        f"holds its "
        "locks, and back vacuum, without end"
    )
    fix = f"alter role {role} set idle_in_transaction_session_timeout = '10min';"
    return [Finding("note", patient.role, problem, (fix,))]


@check("this machine's clock and the server's agree")
async def clock_skew(
    patient: Patient, *, most: float = 2.0, clock: Callable[[], float] = time.time
) -> list[Finding]:
    before = clock()
    found = await patient.row("select extract(epoch from clock_timestamp())::float8 as now")
    after = clock()
    # The question itself took a while: only what is outside of it counts.
    skew = before - found.now if found.now < before else found.now - after
    if skew <= most:
        return []
    way = "ahead of" if found.now < before else "behind"
    problem = (
        f"this machine's clock is {skew:,.1f} s {way} the database's: redrive goes by the database's, but "
        f"signatures of "
        "webhooks are judged by this machine's, and refused as stale when it is minutes off"
    )
    return [Finding("note", "clock", problem, ("sudo timedatectl set-ntp true",))]


CHECKS: tuple[Check, ...] = (
    pooler,
    read_only,
    isolation,
    statement_timeout,
    idle_timeout,
    clock_skew,
)
