"""The doctor on the server, its sessions and the way there: made wrong, named, mended."""

from __future__ import annotations

import time
from collections.abc import Generator

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from redrive.store.database import connect
from redrive.store.migrations import migrate
from redrive.watch.doctor import Surroundings
from tests.support.databases import Databases
from tests.support.examining import Doctor
from tests.support.roles import Roles
from tests.support.server import Server


@pytest.fixture
def role(roles: Roles) -> str:
    return roles.create("crew", "login")


@pytest.fixture(scope="module")
def odd_server() -> Generator[Server]:
    """A server with settings that the tests' one has not."""
    server = Server({"max_prepared_transactions": "2", "autovacuum": "off"})
    try:
        server.start()
        with connect(server.url) as connection:
            migrate(connection)
        yield server
    finally:
        server.stop()


class TestTheWayThere:
    def test_no_pooler(self, doctor: Doctor) -> None:
        assert doctor.is_fine("pooler")

    def test_the_port_of_one(self, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("redrive.watch.doctor.connection._POOLER_PORT", doctor.db.info.port)
        assert "is a transaction pooler's, by custom" in doctor.one("pooler").problem

    def test_a_clock_that_is_an_hour_off(self, doctor: Doctor) -> None:
        found = doctor.one("clock_skew", clock=lambda: time.time() + 3600)
        assert found.severity == "note"
        assert "this machine's clock is 3,6" in found.problem and "s ahead of the database's" in found.problem
        found = doctor.one("clock_skew", clock=lambda: time.time() - 3600)
        assert "s behind the database's" in found.problem
        assert doctor.is_fine("clock_skew", clock=lambda: time.time() + 1)


class TestWhatASessionBeginsWith:
    def test_a_database_that_may_only_be_read(self, doctor: Doctor) -> None:
        name = doctor.db.info.dbname
        doctor.sql(f"alter database {name} set default_transaction_read_only = on")
        found = doctor.one("read_only")
        assert found.problem.startswith(f"default_transaction_read_only is on for database {name}")
        doctor.sql("set default_transaction_read_only = off")
        for line in found.fix:
            doctor.sql(line)
        assert doctor.is_fine("read_only")

    @pytest.mark.parametrize(
        "where", ["database {database}", "role {role}", "role {role} in database {database}"]
    )
    def test_another_isolation(self, doctor: Doctor, role: str, where: str) -> None:
        around = Surroundings(role=role)
        told = where.format(database=doctor.db.info.dbname, role=role)
        doctor.sql(f"alter {told} set default_transaction_isolation = 'repeatable read'")
        found = doctor.one("isolation", around=around)
        assert found.problem.startswith(f"default_transaction_isolation is repeatable read for {told}")
        doctor.follow(found)
        assert doctor.is_fine("isolation", around=around)

    def test_a_short_statement_timeout(self, doctor: Doctor, role: str) -> None:
        around = Surroundings(role=role)
        assert doctor.is_fine("statement_timeout", around=around)
        doctor.sql(f"alter role {role} set statement_timeout = '3s'")
        found = doctor.one("statement_timeout", around=around)
        assert found.severity == "note" and f"statement_timeout is 3s for role {role}" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("statement_timeout", around=around)

    def test_no_limit_for_idle_transactions(self, doctor: Doctor, role: str) -> None:
        around = Surroundings(role=role)
        found = doctor.one("idle_timeout", around=around)
        assert found.severity == "note" and "has no idle_in_transaction_session_timeout" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("idle_timeout", around=around)


class TestTheServer:
    def test_its_version(self, doctor: Doctor) -> None:
        assert doctor.is_fine("server_version")
        assert "redrive needs 99 or newer" in doctor.one("server_version", oldest=990000).problem

    def test_an_encoding_with_few_characters(self, databases: Databases) -> None:
        doctor = Doctor(databases.latin1())
        found = doctor.one("encoding")
        assert found.severity == "note" and "the database's encoding is LATIN1" in found.problem
        databases.drop(doctor.url)

    def test_room_for_the_processes_there_will_be(self, doctor: Doctor) -> None:
        assert doctor.is_fine("connections", around=Surroundings(processes=2))
        found = doctor.one("connections", around=Surroundings(processes=100))
        assert "100 worker processes (--processes) take up to 1500 connections" in found.problem
        assert "max_connections 300" in found.problem
        assert found.fix[0].startswith("alter system set max_connections = 15")

    def test_room_for_those_that_are_seen(self, doctor: Doctor) -> None:
        doctor.sql(
            "insert into redrive.worker (queue, worker, started_at, last_seen) "
            "select 'jobs', 'w' || n, now(), now() from generate_series(1, 40) n"
        )
        assert "40 worker processes (seen within a minute)" in doctor.one("connections").problem
        doctor.sql("delete from redrive.worker")
        assert doctor.is_fine("connections")

    def test_limits_of_the_role_and_the_database(self, doctor: Doctor, role: str) -> None:
        around = Surroundings(role=role, processes=1)
        doctor.sql(f"alter role {role} connection limit 3")
        doctor.sql(f"alter database {doctor.db.info.dbname} connection limit 4")
        by_role, by_database = doctor.all("connections", around=around)
        assert f"role {role} is limited to 3" in by_role.problem
        assert "is limited to 4" in by_database.problem
        doctor.follow(by_role)
        doctor.follow(by_database)
        assert doctor.is_fine("connections", around=around)

    def test_transaction_ids(self, doctor: Doctor) -> None:
        assert doctor.is_fine("wraparound")
        found = doctor.one("wraparound", most=-1)
        assert "transactions old" in found.problem and found.fix == ("vacuum (freeze);",)

    def test_the_queue_of_notifications(self, doctor: Doctor) -> None:
        assert doctor.is_fine("notify_queue")
        assert "queue of notifications is" in doctor.one("notify_queue", most=-1).problem

    def test_autovacuum_that_is_off(self, odd_server: Server) -> None:
        doctor = Doctor(odd_server.url)
        found = doctor.one("autovacuum")
        assert found.problem.startswith("autovacuum is off in this server") and not found.safe
        assert found.fix[0] == "alter system set autovacuum = on;"

    def test_a_replica(self) -> None:
        server = Server()
        try:
            server.start()
            server.pause()
            server.into_recovery()
            server.resume()
            found = Doctor(server.url).one("read_only")
        finally:
            server.stop()
        assert "is a read replica" in found.problem


class TestSessions:
    def test_a_transaction_that_somebody_left_open(self, doctor: Doctor) -> None:
        with psycopg.connect(doctor.url, row_factory=namedtuple_row, application_name="report") as reader:
            reader.execute("select 1, txid_current()")
            pid = reader.info.backend_pid
            assert doctor.is_fine("holders")
            found = doctor.one("holders", longest=0)
            assert f"process {pid} of role postgres (report) has had a transaction open" in found.problem
            assert (
                "it is idle in transaction" in found.problem and "select 1, txid_current()" in found.problem
            )
            assert (found.fix, found.safe) == ((f"select pg_terminate_backend({pid});",), False)
            doctor.follow(found)
            with pytest.raises(psycopg.OperationalError):
                reader.execute("select 1")
        assert doctor.is_fine("holders", longest=0)

    def test_sessions_that_the_role_may_not_see_are_told_of(
        self, doctor: Doctor, role: str, roles: Roles
    ) -> None:
        doctor.sql("select 1")
        limited = Doctor(roles.url(doctor.db.info, role))
        found = limited.one("holders")
        assert found.severity == "not checked" and f"grant pg_read_all_stats to {role}" in found.problem
        doctor.sql(f"grant pg_read_all_stats to {role}")
        assert limited.is_fine("holders")

    def test_a_replication_slot_that_nobody_reads(self, doctor: Doctor) -> None:
        doctor.sql("select pg_create_physical_replication_slot('standby', true)")
        found = doctor.one("replication_slots")
        assert found.problem.startswith("replication slot standby is read by nobody, and keeps ")
        doctor.follow(found)
        assert doctor.is_fine("replication_slots")

    def test_a_prepared_transaction_that_nobody_ends(self, odd_server: Server) -> None:
        doctor = Doctor(odd_server.url)
        with psycopg.connect(odd_server.url) as connection:
            connection.execute("create table left_over ()")
            connection.execute("prepare transaction 'it''s mine'")
        assert doctor.is_fine("prepared_transactions")
        found = doctor.one("prepared_transactions", longest=0)
        assert "was prepared" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("prepared_transactions", longest=0)
