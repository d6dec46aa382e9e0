"""What a caller makes in its own session is never run with the rights of a function's owner."""

from __future__ import annotations

from typing import Any

import psycopg

from redrive.sql import PARTS
from redrive.store.grants import grant
from tests.support.layouts import newest_only
from tests.support.roles import Roles
from tests.support.temporary import caught, shadow

Connection = psycopg.Connection[Any]

CALLS = (
    "redrive.create_queue('jobs', p_policy => '{\"max_attempts\": 3}')",
    "redrive.send('jobs', '{}', p_key => 'k', p_unique => true, p_delay => 0)",
    "redrive.send_batch('jobs', '[{}, {}]', p_keys => array['a', 'b'])",
    "redrive.claim('jobs', 30, 2, 'w')",
    "redrive.read_with_dlq('jobs', 30, 1)",
    "redrive.settle('jobs', array[1, 2, 3], array[1, 1, 1], array['done', 'retry', 'reject'])",
    "redrive.claim_job('k')",
    "redrive.begin_job('l', 'me', 5)",
    "redrive.acquire_lease('m', 5)",
    "redrive.redrive('jobs')",
    "redrive.check_queue_health(0)",
    "redrive.list_queues()",
    "redrive.metrics('jobs')",
    "redrive.why('jobs', 1)",
    "redrive.workers()",
    "redrive.check_inbox('{jobs}')",
    "redrive.receive_event('s', 'e', 't', '{\"a\": 1}', '{\"a\": 1}', '{}', 'jobs')",
    "redrive.list_events()",
    "redrive.retention()",
)


@newest_only
def test_none_of_a_callers_types_and_views_is_taken_for_postgres_own(db: Connection, roles: Roles) -> None:
    role = roles.create("app", "login")
    for part in PARTS:
        grant(db, role, part)
    with roles.connect(db.info, role) as theirs:
        shadow(theirs)
        for call in CALLS:
            theirs.execute(f"select * from {call}".encode())
            assert caught(theirs) is None, call


@newest_only
def test_it_would_be_seen(db: Connection, roles: Roles) -> None:
    db.execute(
        "create function redrive.slip() returns bigint language plpgsql security definer "
        "set search_path = '' as $$ declare v_one text := 'a'; "
        "begin return (select count(*) from pg_class); end $$"
    )
    role = roles.create("app", "login")
    db.execute(f"grant usage on schema redrive to {role}".encode())
    with roles.connect(db.info, role) as theirs:
        shadow(theirs)
        theirs.execute("select redrive.slip()")
        assert caught(theirs) == "postgres"
