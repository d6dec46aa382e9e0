"""The database as redrive asks it: deadlines, conflicts, lost connections, and faults by their names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
import pytest

from redrive.errors import InvalidArgument, QueueMissing, SetupError, Unavailable
from redrive.store.database import Database, connect
from redrive.store.statement import Statement, column, nothing, scalar
from tests.support.layouts import NEWEST
from tests.support.proxy import Proxy

pytestmark = pytest.mark.once

Connection = psycopg.Connection[Any]
WHICH_BACKEND: Statement[int] = Statement("select pg_backend_pid()", (), scalar)


@pytest.fixture
def layout() -> str:
    """None of this depends on pgmq."""
    return NEWEST


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncGenerator[Database, None]:
    database = Database(url, **options)
    try:
        yield database
    finally:
        await database.close()


def others(db: Connection, condition: str = "true") -> int:
    found = db.execute(
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and backend_type = 'client backend' "
        f"and pid <> pg_backend_pid() and {condition}".encode()
    ).fetchone()
    assert found
    return found[0]


async def until(db: Connection, count: int, condition: str = "true") -> None:
    for _turn in range(1000):
        if others(db, condition) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{others(db, condition)} other connections, not {count}, where {condition}")


def terminate_others(db: Connection) -> None:
    db.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"
    )


async def test_a_statement_answers_what_its_load_makes_of_the_rows(database: Database) -> None:
    assert await database.run(Statement("select n from generate_series(1, %s::int) n", (3,), column)) == [
        1,
        2,
        3,
    ]
    assert await database.run(Statement("create table t ()", (), nothing)) is None


async def test_nothing_is_connected_before_the_first_question(database_url: str, db: Connection) -> None:
    async with opened(database_url) as database:
        assert others(db) == 0
        await database.run(WHICH_BACKEND)
        assert others(db) == 1
    await until(db, 0)


async def test_many_callers_share_few_connections(database_url: str, db: Connection) -> None:
    async with opened(database_url, size=2) as database:
        pids = await asyncio.gather(*(database.run(WHICH_BACKEND) for _ in range(50)))
        assert 1 <= len(set(pids)) <= 2


class TestDeadline:
    async def test_a_statement_that_takes_too_long_is_called_off_on_the_server(
        self, database_url: str, db: Connection
    ) -> None:
        async with opened(database_url, deadline=0.3) as database:
            with pytest.raises(Unavailable, match=r"within 0\.3 s"):
                await database.run(Statement("select pg_sleep(60)", (), nothing))
            await until(db, 0, "state = 'active'")
            assert await database.run(Statement("select 1", (), scalar)) == 1

    async def test_a_network_that_swallows_everything_is_given_up(self, server_tcp_url: str) -> None:
        async with Proxy(server_tcp_url) as proxy, opened(proxy.url, deadline=0.5, size=1) as database:
            await database.run(WHICH_BACKEND)
            proxy.swallow = True
            started = monotonic()
            with pytest.raises(Unavailable, match="did not answer"):
                await database.run(WHICH_BACKEND)
            assert monotonic() - started < 6
            proxy.swallow = False
            assert await database.run(Statement("select 1", (), scalar)) == 1

    async def test_waiting_for_a_connection_counts_too(self, database_url: str) -> None:
        async with opened(database_url, deadline=0.3, size=1) as database, database.connection():
            with pytest.raises(Unavailable, match="did not answer"):
                await database.run(WHICH_BACKEND)

    async def test_a_callers_own_cancellation_stays_one(self, database_url: str, db: Connection) -> None:
        async with opened(database_url) as database:
            task = asyncio.create_task(database.run(Statement("select pg_sleep(60)", (), nothing)))
            await until(db, 1, "state = 'active'")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await database.run(Statement("select 1", (), scalar)) == 1


class TestConflicts:
    @pytest.fixture(autouse=True)
    def loser(self, db: Connection) -> None:
        """loses(n, state): loses its first n conflicts; a sequence counts on through rollbacks."""
        db.execute("create sequence tries")
        db.execute(
            "create function loses(n int, state text) returns bigint language plpgsql as $$ begin "
            "if nextval('tries') <= n then raise exception using errcode = state, message = 'lost'; end if; "
            "return currval('tries'); end $$"
        )

    @pytest.mark.parametrize("state", ["40001", "40P01"])
    async def test_a_lost_conflict_is_run_again(self, database: Database, state: str) -> None:
        assert await database.run(Statement("select loses(%s::int, %s)", (3, state), scalar)) == 4

    async def test_six_lost_conflicts_are_enough(self, database: Database, db: Connection) -> None:
        with pytest.raises(Unavailable, match="six conflicts"):
            await database.run(Statement("select loses(%s::int, %s)", (99, "40001"), scalar))
        assert db.execute("select last_value from tries").fetchall() == [(6,)]

    async def test_other_faults_are_not(self, database: Database, db: Connection) -> None:
        with pytest.raises(psycopg.errors.UniqueViolation):
            await database.run(Statement("select loses(%s::int, %s)", (99, "23505"), scalar))
        assert db.execute("select last_value from tries").fetchall() == [(1,)]


class TestLostConnections:
    async def test_idle_ones_that_were_hung_up_on_cost_no_statement(
        self, database: Database, db: Connection
    ) -> None:
        async with database.connection(), database.connection(), database.connection():
            pass
        assert others(db) == 3
        terminate_others(db)
        for _ in range(3):
            assert await database.run(Statement("select 1", (), scalar)) == 1

    async def test_one_that_dies_in_mid_statement_is_unavailable(
        self, database: Database, db: Connection
    ) -> None:
        task = asyncio.create_task(database.run(Statement("select pg_sleep(60)", (), nothing)))
        await until(db, 1, "state = 'active'")
        terminate_others(db)
        with pytest.raises(Unavailable):
            await task
        assert await database.run(Statement("select 1", (), scalar)) == 1

    async def test_an_unreachable_server_is_unavailable_at_once_and_without_the_password(self) -> None:
        url = "postgresql://ada:s3cret@127.0.0.1:1/jobs"
        started = monotonic()
        async with opened(url) as database:
            with pytest.raises(Unavailable, match="out of reach") as refused:
                await database.run(WHICH_BACKEND)
        assert monotonic() - started < 10
        assert "s3cret" not in str(refused.value)
        with pytest.raises(Unavailable, match="out of reach"):
            connect(url)


class TestLoopsAndProcesses:
    def test_each_event_loop_has_its_own_connections(self, database_url: str) -> None:
        database = Database(database_url)

        async def ask() -> int:
            pid = await database.run(WHICH_BACKEND)
            await database.close()
            return pid

        assert asyncio.run(ask()) != asyncio.run(ask())

    def test_a_forked_child_opens_its_own_even_in_the_inherited_loop(self, database_url: str) -> None:
        database = Database(database_url)
        loop = asyncio.new_event_loop()
        before = loop.run_until_complete(database.run(WHICH_BACKEND))
        child = os.fork()
        if child == 0:
            theirs = 0
            with suppress(BaseException):
                theirs = loop.run_until_complete(database.run(WHICH_BACKEND))
            os._exit(0 if theirs not in (0, before) else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert loop.run_until_complete(database.run(WHICH_BACKEND)) == before
        loop.run_until_complete(database.close())
        loop.close()


class TestConnection:
    async def test_what_is_left_open_is_rolled_back(self, database: Database, db: Connection) -> None:
        db.execute("create table t (n int)")
        async with database.connection() as connection:
            await connection.execute("begin")
            await connection.execute("insert into t values (1)")
        await until(db, 0, "state <> 'idle'")
        assert db.execute("select count(*) from t").fetchall() == [(0,)]

    async def test_errors_are_the_drivers_own(self, database: Database) -> None:
        async with database.connection() as connection:
            with pytest.raises(psycopg.errors.UndefinedTable):
                await connection.execute("select from nothing_like_it")


class TestFaults:
    async def test_a_missing_queue_and_a_wrong_argument(self, database: Database) -> None:
        with pytest.raises(QueueMissing, match="nowhere"):
            await database.run(Statement("select redrive.send(%s, '{}'::jsonb)", ("nowhere",), scalar))
        with pytest.raises(InvalidArgument):
            await database.run(Statement("select redrive.create_queue(%s)", ("No Name",), scalar))

    async def test_a_database_without_redrive_says_migrate(self, empty_database_url: str) -> None:
        async with opened(empty_database_url) as database:
            with pytest.raises(SetupError, match="redrive migrate"):
                await database.run(Statement("select redrive.send(%s, '{}'::jsonb)", ("q",), scalar))

    async def test_a_role_without_a_part_says_grant(self, database_url: str) -> None:
        async with opened(database_url + "&options=-c%20role%3Dpg_monitor") as database:
            with pytest.raises(SetupError, match="redrive grant"):
                await database.run(Statement("select redrive.send(%s, '{}'::jsonb)", ("q",), scalar))

    async def test_a_read_only_session_says_so(self, database_url: str, db: Connection) -> None:
        db.execute("select redrive.create_queue('mails')")
        read_only = database_url + "&options=-c%20default_transaction_read_only%3Don"
        async with opened(read_only) as database:
            with pytest.raises(SetupError, match="read-only"):
                await database.run(Statement("select redrive.send(%s, '{}'::jsonb)", ("mails",), scalar))
