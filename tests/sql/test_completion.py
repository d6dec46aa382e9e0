"""A handler's own writes and its message's end: both or neither, whichever connection they are made on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest
from psycopg import IsolationLevel

from redrive import InvalidArgument, Job, Lost, SyncJob
from redrive.job import BlockingCompletion, BlockingPool, Completion, completion
from redrive.store.database import Database
from tests.support.connections import BLOCKING, EVERYWHERE, django_connection, finished, transaction
from tests.support.layouts import newest_only

pytestmark = pytest.mark.once

Connection = psycopg.Connection[Any]


class AsyncPort(Completion):
    async def extend(self, seconds: float) -> None: ...


class BlockingPort(BlockingCompletion):
    def extend(self, seconds: float) -> None: ...


@pytest.fixture(autouse=True)
def mails(db: Connection) -> None:
    db.execute("select redrive.create_queue('mails')")
    db.execute("create table effect (n integer)")
    db.execute("select redrive.send('mails', '1')")


@pytest.fixture
async def pool(database_url: str) -> AsyncGenerator[BlockingPool]:
    made = BlockingPool(database_url)
    yield made
    await asyncio.to_thread(made.close)


def claim(db: Connection, worker: str = "me") -> dict[str, Any]:
    (row,) = db.execute("select msg_id, read_ct from redrive.claim('mails', 60, 1, %s)", (worker,)).fetchall()
    return {"queue": "mails", "msg_id": row[0], "read_ct": row[1], "worker": worker}


FACTS: dict[str, Any] = {
    "attempt": 1,
    "max_attempts": 5,
    "key": None,
    "headers": None,
    "enqueued_at": datetime.now(UTC),
}


def facts(claimed: dict[str, Any]) -> dict[str, Any]:
    return {**FACTS, **{name: value for name, value in claimed.items() if name != "worker"}}


def make_job(database: Database, claimed: dict[str, Any]) -> Job:
    # Only completing is asked of it here.
    return Job(cast("Any", AsyncPort(database, **claimed)), **facts(claimed))


def make_sync_job(pool: BlockingPool, claimed: dict[str, Any]) -> SyncJob:
    return SyncJob(BlockingPort(pool, **claimed), **facts(claimed))


def effects(db: Connection) -> int:
    return db.execute("select count(*) from effect").fetchone()[0]  # type: ignore


def outcomes(db: Connection) -> list[tuple[int, str]]:
    return [tuple(row) for row in db.execute("select msg_id, outcome from pgmq.a_mails").fetchall()]


class TestTransaction:
    async def test_the_effect_and_the_end_are_committed_together(
        self, db: Connection, database: Database
    ) -> None:
        job = make_job(database, claim(db))
        async with job.transaction() as connection:
            await connection.execute("insert into effect values (1)")
            assert effects(db) == 0
        assert effects(db) == 1
        assert outcomes(db) == [(1, "done")]
        assert job.committed

    async def test_an_exception_undoes_both_and_the_message_is_still_ours(
        self, db: Connection, database: Database
    ) -> None:
        claimed = claim(db)
        job = make_job(database, claimed)
        with pytest.raises(RuntimeError):
            async with job.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                raise RuntimeError
        assert (effects(db), outcomes(db), job.completed) == (0, [], False)
        async with make_job(database, claimed).transaction():
            pass
        assert outcomes(db) == [(1, "done")]

    async def test_a_message_that_another_has_ended_undoes_the_effect(
        self, db: Connection, database: Database
    ) -> None:
        job = make_job(database, claim(db))
        with pytest.raises(Lost, match="message 1 of queue mails is no longer this delivery's"):
            async with job.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                db.execute("update pgmq.q_mails set vt = now()")
                other = claim(db, "other")
                db.execute(
                    "select redrive.settle('mails', array[1], array[%s], '{done}')", (other["read_ct"],)
                )
        assert (effects(db), outcomes(db), job.completed) == (0, [(1, "done")], False)

    async def test_a_late_completion_counts_until_somebody_has_settled(
        self, db: Connection, database: Database
    ) -> None:
        first = claim(db)
        db.execute("update pgmq.q_mails set vt = now()")
        second = claim(db, "other")
        async with make_job(database, first).transaction() as connection:
            await connection.execute("insert into effect values (1)")
        with pytest.raises(Lost):
            async with make_job(database, second).transaction() as connection:
                await connection.execute("insert into effect values (2)")
        assert effects(db) == 1
        assert len(outcomes(db)) == 1

    async def test_a_row_that_is_locked_for_a_moment_is_waited_for(
        self, db: Connection, database: Database, database_url: str
    ) -> None:
        job = make_job(database, claim(db))
        with psycopg.connect(database_url) as other:
            other.execute("select * from pgmq.q_mails for update")
            asyncio.get_running_loop().call_later(0.2, other.rollback)
            async with job.transaction() as connection:
                await connection.execute("insert into effect values (1)")
        assert (effects(db), outcomes(db)) == (1, [(1, "done")])

    async def test_a_row_that_stays_locked_undoes_the_effect(
        self, db: Connection, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(completion, "_LOCKED_PAUSES", (0.01,))
        job = make_job(database, claim(db))
        with psycopg.connect(database_url) as other:
            other.execute("select * from pgmq.q_mails for update")
            with pytest.raises(Lost, match="another transaction holds its row"):
                async with job.transaction() as connection:
                    await connection.execute("insert into effect values (1)")
        assert (effects(db), outcomes(db)) == (0, [])

    async def test_it_is_read_committed_whatever_the_database_prefers(
        self, db: Connection, database_url: str
    ) -> None:
        name = db.info.dbname
        db.execute(f"alter database {name} set default_transaction_isolation = 'repeatable read'")  # type: ignore
        database = Database(database_url, size=1)
        async with make_job(database, claim(db)).transaction() as connection:
            row = await (await connection.execute("show transaction_isolation")).fetchone()
            assert row == ("read committed",)
        async with database.connection() as connection:
            assert connection.isolation_level is None
            assert connection.autocommit
        await database.close()

    async def test_a_handler_cannot_commit_half_of_it(self, db: Connection, database: Database) -> None:
        job = make_job(database, claim(db))
        with pytest.raises(psycopg.ProgrammingError, match="commit"):
            async with job.transaction() as connection:
                await connection.execute("insert into effect values (1)")
                await connection.commit()
        assert (effects(db), outcomes(db)) == (0, [])

    async def test_a_cancelled_handler_leaves_nothing_behind(self, db: Connection, database_url: str) -> None:
        database = Database(database_url, size=1)
        claimed = claim(db)
        inside = asyncio.Event()

        async def handler() -> None:
            async with make_job(database, claimed).transaction() as connection:
                await connection.execute("insert into effect values (1)")
                inside.set()
                await connection.execute("select pg_sleep(60)")

        task = asyncio.create_task(handler())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (effects(db), outcomes(db)) == (0, [])
        async with make_job(database, claimed).transaction():
            pass
        assert outcomes(db) == [(1, "done")]
        await database.close()

    async def test_in_a_thread_it_is_the_same(self, db: Connection, pool: BlockingPool) -> None:
        claimed = claim(db)

        def handler() -> None:
            with pytest.raises(RuntimeError), make_sync_job(pool, claimed).transaction() as connection:
                connection.execute("insert into effect values (1)")
                raise RuntimeError
            with make_sync_job(pool, claimed).transaction() as connection:
                row = connection.execute("show transaction_isolation").fetchone()
                assert row == ("read committed",)
                connection.execute("insert into effect values (2)")
            with (
                pytest.raises(Lost, match="no longer this delivery's"),
                make_sync_job(pool, claimed).transaction() as connection,
            ):
                connection.execute("insert into effect values (3)")
            with pool.connection() as connection:
                assert connection.isolation_level is None

        await asyncio.to_thread(handler)
        assert (effects(db), outcomes(db)) == (1, [(1, "done")])

    @newest_only
    async def test_threads_share_the_pool(self, db: Connection, pool: BlockingPool) -> None:
        db.execute("select redrive.send('mails', '1') from generate_series(1, 19)")
        claimed = [claim(db) for _ in range(20)]

        def handler(each: dict[str, Any]) -> None:
            with make_sync_job(pool, each).transaction() as connection:
                connection.execute("insert into effect values (1)")

        threads = [threading.Thread(target=handler, args=(each,)) for each in claimed]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join() for thread in threads])
        assert effects(db) == 20
        assert len(outcomes(db)) == 20


@newest_only
class TestComplete:
    @pytest.mark.parametrize("kind", EVERYWHERE)
    async def test_it_ends_with_the_callers_transaction(
        self, db: Connection, database: Database, database_url: str, kind: Any
    ) -> None:
        claimed = claim(db)
        async with transaction(kind, database_url) as t:
            await finished(t.fetch("insert into effect values (1) returning n as v"))
            await make_job(database, claimed).complete(t.connection)
            assert outcomes(db) == []
            await finished(t.rollback())
        assert (effects(db), outcomes(db)) == (0, [])
        async with transaction(kind, database_url) as t:
            await finished(t.fetch("insert into effect values (1) returning n as v"))
            job = make_job(database, claimed)
            await job.complete(t.connection)
            assert (job.completed, job.committed) == (True, False)
            await finished(t.commit())
        assert (effects(db), outcomes(db)) == (1, [(1, "done")])

    @pytest.mark.parametrize("kind", BLOCKING)
    def test_in_a_thread_it_is_the_same(
        self, db: Connection, database_url: str, kind: Any, blocking_pool: BlockingPool
    ) -> None:
        claimed = claim(db)
        with kind(database_url) as t:
            t.fetch("insert into effect values (1) returning n as v")
            make_sync_job(blocking_pool, claimed).complete(t.connection)
            assert outcomes(db) == []
            t.commit()
        assert (effects(db), outcomes(db)) == (1, [(1, "done")])

    @pytest.fixture
    def blocking_pool(self, database_url: str) -> Generator[BlockingPool]:
        made = BlockingPool(database_url)
        yield made
        made.close()

    async def test_a_message_that_another_has_ended_is_lost(
        self, db: Connection, database: Database, database_url: str
    ) -> None:
        job = make_job(database, claim(db))
        db.execute("select redrive.settle('mails', '{1}', '{1}', '{done}')")
        async with await psycopg.AsyncConnection.connect(database_url) as mine:
            with pytest.raises(Lost, match="no longer this delivery's"):
                await job.complete(mine)
        assert not job.completed

    async def test_a_connection_outside_a_transaction_is_refused(
        self, db: Connection, database: Database, database_url: str, blocking_pool: BlockingPool
    ) -> None:
        claimed = claim(db)
        with pytest.raises(InvalidArgument, match=r"is not in a transaction; complete\(\) needs"):
            await make_job(database, claimed).complete(db)
        with pytest.raises(InvalidArgument, match="is not in a transaction"):
            make_sync_job(blocking_pool, claimed).complete(db)

        def with_django() -> None:
            handler = django_connection(database_url)
            with pytest.raises(InvalidArgument, match="is not in a transaction"):
                make_sync_job(blocking_pool, claimed).complete(handler["default"])
            handler.close_all()

        await asyncio.to_thread(with_django)
        assert outcomes(db) == []

    async def test_a_stricter_isolation_is_refused(
        self, db: Connection, database: Database, database_url: str
    ) -> None:
        job = make_job(database, claim(db))
        async with await psycopg.AsyncConnection.connect(database_url) as mine:
            await mine.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            with pytest.raises(InvalidArgument, match="the connection's transaction is repeatable read"):
                await job.complete(mine)

    async def test_another_database_is_refused(
        self, db: Connection, database: Database, database_url: str
    ) -> None:
        job = make_job(database, claim(db))
        # As good as another database: on this connection redrive is another installation.
        other = await psycopg.AsyncConnection.connect(database_url)
        await other.execute("update redrive.installation set id = gen_random_uuid()")
        with pytest.raises(InvalidArgument, match="the connection is to another database"):
            await job.complete(other)
        await other.close()
        assert outcomes(db) == []
