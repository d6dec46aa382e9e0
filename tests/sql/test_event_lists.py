"""Lists and counts of webhook events: exact, page by page, and at the price of what is shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import psycopg
import pytest

from tests.support.contract import Contract, done, reject, report
from tests.support.inbox import receive
from tests.support.layouts import newest_only, with_headers


@with_headers
class TestLists:
    def events(self, sql: Contract) -> dict[str, Any]:
        sql.create(max_attempts=1)
        got: dict[str, Any] = {}
        for n, (source, type, resource) in enumerate(
            [
                ("b", "media.created", "r1"),
                ("a", "media.ready", "r1"),
                ("b", "media.ready", None),
                ("a", "50%_off", "r2"),
                ("b", "media", "r2"),
                ("a", "Media.ready", "r1"),
            ]
        ):
            sql.clock.set(datetime.fromisoformat(f"2026-01-01T00:00:0{n}+00:00"))
            got[str(n)] = receive(sql, source=source, event_id=str(n), type=type, resource=resource)
        sql.clock.move(10)
        for delivery in sorted(sql.claim(6))[:4]:
            sql.settle([done, reject, lambda d: report(d, "ignored"), done][delivery.msg_id - 1](delivery))  # type: ignore[operator]
        return got

    def listed(self, sql: Contract, **given: Any) -> str:
        """The event ids, in their order."""
        casts = {"since": "timestamptz", "until": "timestamptz", "after": "uuid", "limit": "integer"}
        named = ", ".join(f"p_{name} => %s::{casts.get(name, 'text')}" for name in given)
        return "".join(sql.column(f"select event_id from redrive.list_events({named})", *given.values()))

    @pytest.mark.parametrize(
        ("given", "ids"),
        [
            ({}, "543210"),
            ({"source": "a"}, "531"),
            ({"source": "nobody"}, ""),
            ({"type": "media.ready"}, "21"),
            ({"type": "media.*"}, "210"),
            ({"type": "*ready"}, "521"),
            ({"type": "*"}, "543210"),
            ({"type": "50%_off"}, "3"),
            ({"type": "50*off"}, "3"),
            ({"type": "5_%"}, ""),
            ({"type": "\\"}, ""),
            ({"status": "processed"}, "30"),
            ({"status": "failed"}, "1"),
            ({"status": "ignored"}, "2"),
            ({"status": "received"}, "54"),
            ({"resource": "r1"}, "510"),
            ({"resource": "r1", "status": "processed"}, "0"),
            ({"resource": "r1", "source": "a", "type": "media*"}, "1"),
            ({"since": "2026-01-01 00:00:02+00", "until": "2026-01-01 00:00:04+00"}, "32"),
            ({"limit": 2}, "54"),
            ({"limit": 1, "source": "b", "status": "processed"}, "0"),
        ],
    )
    def test_have_what_was_asked_for_newest_first(
        self, sql: Contract, given: dict[str, Any], ids: str
    ) -> None:
        self.events(sql)
        assert self.listed(sql, **given) == ids

    @pytest.mark.parametrize("given", [{}, {"source": "a"}, {"type": "media.*"}, {"resource": "r1"}])
    def test_go_on_page_by_page_also_where_all_came_at_once(
        self, sql: Contract, given: dict[str, Any]
    ) -> None:
        self.events(sql)
        sql("update redrive.webhook_event set received_at = now() where source = 'a'")
        whole = self.listed(sql, **given)
        pages = ""
        after: dict[str, Any] = {}
        while page := self.listed(sql, **given, **after, limit=2):
            pages += page
            after = {"after": sql.value("select id from redrive.webhook_event where event_id = %s", page[-1])}
        assert pages == whole

    def test_that_begin_after_an_event_which_is_gone_are_refused(self, sql: Contract) -> None:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="begin at the first page"):
            self.listed(sql, after="00000000-0000-4000-8000-000000000000")

    def test_of_no_length_are_refused(self, sql: Contract) -> None:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="limit is 0"):
            self.listed(sql, limit=0)


@with_headers
class TestStatus:
    def test_of_an_inbox_that_never_got_anything(self, sql: Contract) -> None:
        assert sql("select * from redrive.inbox_status()") == []
        [row] = sql("select * from redrive.inbox_status('stripe')")
        assert tuple(row) == ("stripe", 0, 0, 0, 0, 0, False, {}, None, None, None, None)

    def test_of_one_that_handled_everything(self, sql: Contract) -> None:
        sql.create()
        received = sql.clock.stop()
        receive(sql)
        at = sql.clock.move(5)
        sql.settle(done(sql.claim_one()))
        [row] = sql("select * from redrive.inbox_status()")
        assert tuple(row) == ("stripe", 1, 0, 1, 0, 0, False, {}, received, at, None, None)

    def test_counts_each_status_of_each_source(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        times = [sql.clock.stop()]
        for n in range(6):
            receive(sql, source="ab"[n % 2], event_id=str(n))
            times.append(sql.clock.move(1))
        held = sorted(sql.claim(4))
        sql.settle(done(held[0]), reject(held[1]), report(held[2], "ignored"), done(held[3]))
        a, b = sql("select * from redrive.inbox_status()")
        assert tuple(a)[:7] == ("a", 3, 1, 1, 0, 1, False)
        assert tuple(b)[:7] == ("b", 3, 1, 1, 1, 0, False)
        assert (a.oldest_waiting_at, a.last_received_at) == (times[4], times[4])
        assert (b.oldest_waiting_at, b.last_received_at) == (times[5], times[5])

    def test_stops_counting_at_ten_thousand(self, sql: Contract) -> None:
        sql(
            "insert into redrive.webhook_event "
            "(source, event_id, type, received_at, status, raw, msg_id, queue) "
            "select 'a', n, 't', now(), 'processed', '', n, 'jobs' from generate_series(1, 10001) n"
        )
        [row] = sql("select processed, received, more from redrive.inbox_status()")
        assert row == (10_000, 10_000, True)


@newest_only
class TestWhatItCosts:
    """In rows read, since time would lie."""

    @pytest.mark.parametrize("analyzed", [False, True])
    def test_a_page_a_count_and_an_end_read_what_they_are_asked_for(
        self, sql: Contract, analyzed: bool
    ) -> None:
        """Of events that came since the table was last analyzed, if it ever was."""
        sql.create()
        sql("truncate redrive.webhook_event")
        sql("alter table redrive.webhook_event set (autovacuum_enabled = false)")
        if analyzed:
            sql(
                "insert into redrive.webhook_event "
                "(source, event_id, type, received_at, status, raw, msg_id, queue) "
                "select 'old', n, 't', now(), 'processed', '', n, 'old' from generate_series(1, 1000) n"
            )
            sql("analyze redrive.webhook_event")
        sql(
            "insert into redrive.webhook_event "
            "(source, event_id, type, resource, received_at, status, raw, msg_id, queue) "
            "select 's' || n % 3, n, 't', 'r' || n, now() - n * interval '1 s', "
            "(array['processed', 'processed', 'ignored', 'failed'])[1 + n % 4], '', n, 'old' "
            "from generate_series(1, 100000) n"
        )
        got = [receive(sql, source="s1", event_id=f"new {n}") for n in range(20)]
        held = sorted(sql.claim(20))

        def touched(query: str, *params: object) -> int:
            reads = (
                "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) "
                "from pg_stat_xact_all_tables where relid = 'redrive.webhook_event'::regclass"
            )
            before = sql.value(reads)
            sql(query, *params)
            return sql.value(reads) - before

        sql("begin")
        page = "select count(*) from redrive.list_events("
        assert touched(f"{page}p_limit => 50)") <= 3 * 4 * 50
        assert touched(f"{page}p_source => 's2', p_status => 'failed', p_limit => 50)") <= 60
        assert touched(f"{page}p_source => 's2', p_until => now() - interval '20 h', p_limit => 50)") <= 220
        assert touched(f"{page}p_resource => 'r70000')") <= 20
        assert touched("select redrive.receive_event('s1', 'x', 't', '1', '', '{}', 'jobs')") <= 5
        assert touched("select redrive.receive_event('s1', 'x', 't', '1', '', '{}', 'jobs')") <= 5
        assert (
            touched("select redrive.receive_event('s1', 'y', 't', '1', '', '{}', 'jobs', p_derived => true)")
            <= 5
        )
        settling = "select count(*) from redrive.settle('jobs', %s::bigint[], %s::integer[], %s::text[])"
        for part, outcome in ((held[:10], "done"), (held[10:], "reject")):
            given = [d.msg_id for d in part], [d.read_ct for d in part], [outcome] * 10
            assert touched(settling, *given) <= 60
        ids = [str(each.id) for each in got]
        assert touched("select redrive.replay_events(%s::uuid[])", ids) <= 400
        assert touched("select redrive.inbox_status('s0')") <= 31_100
        sql("rollback")
        sql("alter table redrive.webhook_event reset (autovacuum_enabled)")
