"""Which error of redrive's a fault of the server becomes, whoever's driver met it."""

from __future__ import annotations

import psycopg
import pytest

from redrive.errors import InvalidArgument, Lost, QueueMissing, RedriveError, SetupError, Unavailable
from redrive.store.faults import explain, explain_psycopg


@pytest.mark.parametrize(
    ("sqlstate", "message", "becomes", "says"),
    [
        ("RD001", "queue mails does not exist", QueueMissing, "queue mails"),
        ("RD002", "no such right", SetupError, "no such right"),
        ("RD003", "the lease is lost", Lost, "the lease is lost"),
        ("22023", "p_vt is -1", InvalidArgument, "p_vt is -1"),
        ("22P05", "unsupported Unicode escape sequence", InvalidArgument, "Unicode"),
        ("3F000", 'schema "redrive" does not exist', SetupError, "redrive migrate"),
        ("42883", "function redrive.claim(text) does not exist", SetupError, "redrive migrate"),
        ("42P01", 'relation "redrive.queue" does not exist', SetupError, "redrive migrate"),
        ("42501", "permission denied for function claim", SetupError, "lacks part work of redrive"),
        ("42501", "permission denied for function send", SetupError, "`redrive grant ROLE send"),
        ("42501", "permission denied for function charge", SetupError, "ROLE send|work|operate|read`"),
        ("42501", "permission denied for table job", SetupError, "ROLE send|work|operate|read`"),
        ("25006", "cannot execute UPDATE in a read-only transaction", SetupError, "read replica"),
        ("57P01", "terminating connection due to administrator command", Unavailable, "try again"),
        ("57P03", "the database system is starting up", Unavailable, "starting up"),
        ("57014", "canceling statement due to statement timeout", Unavailable, "statement timeout"),
        ("53300", "sorry, too many clients already", Unavailable, "too many clients"),
        ("08006", "connection failure", Unavailable, "connection failure"),
    ],
)
def test_a_fault_becomes(sqlstate: str, message: str, becomes: type[RedriveError], says: str) -> None:
    error = explain(sqlstate, message)
    assert type(error) is becomes
    assert says in str(error)


@pytest.mark.parametrize(
    ("sqlstate", "message"),
    [
        # a caller's own mistake in a caller's own transaction
        ("42883", "function public.charge(integer) does not exist"),
        ("42P01", 'relation "redrives" does not exist'),
        ("23505", "duplicate key value violates unique constraint"),
        # the caller's transaction has to be run again as a whole: its own code looks for these
        ("40001", "could not serialize access"),
        ("40P01", "deadlock detected"),
        (None, "whatever"),
    ],
)
def test_what_is_not_ours_is_left_to_the_driver(sqlstate: str | None, message: str) -> None:
    assert explain(sqlstate, message) is None


def test_a_lost_connection_is_unavailable_and_a_wrong_call_is_not() -> None:
    assert isinstance(explain_psycopg(psycopg.OperationalError("server closed the connection")), Unavailable)
    assert explain_psycopg(psycopg.ProgrammingError("wrong number of parameters")) is None
