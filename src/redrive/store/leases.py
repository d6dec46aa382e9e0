"""Leases: who holds which single-flight right, and taking it away."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from redrive.store.statement import Statement, scalar


class Lease(NamedTuple):
    """`name` is queue:<name> for a single-flight queue. `held`: it has not run out yet."""

    name: str
    token: int
    holder: str | None
    acquired_at: datetime
    lease_until: datetime
    held: bool


def listing() -> Statement[list[Lease]]:
    """All leases by name."""
    return Statement(
        "select name, token, holder, acquired_at, lease_until, held from redrive.leases()",
        (),
        lambda rows: [Lease(*row) for row in rows],
    )


def acquire(name: str, seconds: float) -> Statement[int | None]:
    """Take the lease for so long: its token, or None while somebody else holds it."""
    return Statement(
        "select redrive.acquire_lease(p_name => %s::text, p_seconds => %s::numeric)", (name, seconds), scalar
    )


def renew(name: str, token: int, seconds: float) -> Statement[bool]:
    """Hold the lease for so long from now; False when this token does not hold it any more."""
    return Statement(
        "select redrive.renew_lease(p_name => %s::text, p_token => %s::bigint, p_seconds => %s::numeric)",
        (name, token, seconds),
        scalar,
    )


def release(name: str, token: int) -> Statement[bool]:
    """Give the lease back; False when this token does not hold it any more."""
    return Statement(
        "select redrive.release_lease(p_name => %s::text, p_token => %s::bigint)", (name, token), scalar
    )


def free(name: str) -> Statement[bool]:
    """Take the lease from whoever holds it; False when there is none."""
    return Statement("select redrive.free_lease(p_name => %s::text)", (name,), scalar)
