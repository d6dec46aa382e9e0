"""The articles' functions over PostgREST: their calls as they are, by service_role alone, in bounded time."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from redrive.errors import ConfigError
from redrive.supabase.functions import ApiFunction
from redrive.supabase.wrappers import functions, section
from tests.support.postgrest import Postgrest, install
from tests.support.project import Project, Projects

SCHEMA = "api"
NAMES = {
    "read_with_dlq", "queue_archive", "claim_job", "begin_job", "finish_job", "abandon_job",
    "claim_worker_lease", "acquire_lease", "renew_lease", "release_lease", "lease_is_mine", "extend",
    "release", "settle", "backoff", "receive_event", "check_queue_health",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(projects: Projects) -> Generator[Project]:
    made = projects.make(migrated=True)
    install(made)
    made.read("select redrive.create_queue('email_jobs')")
    made.read("select redrive.create_queue('webhook_jobs')")
    made.read("select redrive.check_inbox(array['webhook_jobs'])")
    yield made
    projects.drop(made)


@pytest.fixture
def api(project: Project) -> Postgrest:
    return Postgrest(project, SCHEMA)


def rpc(api: Postgrest, name: str, /, **arguments: Any) -> Any:
    status, answer = api.call(name, arguments)
    assert status in (200, 204), answer
    return answer


def refused(api: Postgrest, name: str, /, **arguments: Any) -> tuple[int, str]:
    status, answer = api.call(name, arguments)
    return status, answer["message"]


def send(project: Project, payload: object, queue: str = "email_jobs", **options: Any) -> int:
    given = "".join(f", {name} => %s" for name in options)
    sql = f"select redrive.send(%s, %s{given})"
    return project.read(sql, [queue, json.dumps(payload), *options.values()])[0][0]


def emptied(project: Project, queue: str) -> None:
    project.read(f"select redrive.queue_archive('{queue}', msg_id) from pgmq.q_{queue}")
    project.read(f"select redrive.discard('{queue}', array(select msg_id from pgmq.q_{queue}_dlq))")


class TestWhatIsThere:
    def test_every_name_for_service_role_alone(self, project: Project) -> None:
        found = {
            each.proname
            for each in project.read("select proname from pg_proc where pronamespace = 'api'::regnamespace")
        }
        assert found == NAMES
        for role in ("anon", "authenticated", "public"):
            may = project.read(
                "select count(*) from pg_proc where pronamespace = 'api'::regnamespace "
                f"and has_function_privilege('{role}', oid, 'execute')"
            )
            assert may[0][0] == 0
        for check in section(SCHEMA).checks:
            assert project.read(f"select {check.sql}")[0][0], check.problem

    def test_running_it_again_changes_nothing(self, project: Project) -> None:
        catalogue = (
            "select p.oid, p.xmin::text, n.xmin::text as schema, d.xmin::text as comment from pg_proc p "
            "join pg_namespace n on n.oid = p.pronamespace join pg_description d on d.objoid = p.oid "
            "where n.nspname = 'api' order by 1"
        )
        before = project.read(catalogue)
        install(project)
        assert project.read(catalogue) == before

    def test_none_is_a_definer_or_waits_long_or_looks_elsewhere(self, project: Project) -> None:
        settings = project.read(
            "select distinct prosecdef, proconfig from pg_proc where pronamespace = 'api'::regnamespace"
        )
        assert [tuple(each) for each in settings] == [
            (False, ["search_path=pg_catalog, pg_temp", "lock_timeout=3s"])
        ]

    def test_no_type_of_pgmq_that_an_upgrade_would_drop(self) -> None:
        assert "pgmq." not in section(SCHEMA).sql

    @pytest.mark.parametrize("function", functions(SCHEMA), ids=lambda each: each.signature)
    def test_a_call_by_name_means_one_function(self, project: Project, function: ApiFunction) -> None:
        for needed_only in (True, False):
            (row,) = project.read(
                "select proargnames[1 : case when %s then pronargs - pronargdefaults else pronargs end] "
                "from pg_proc where oid = %s::regprocedure",
                [needed_only, function.signature],
            )
            status, answer = Postgrest(project, SCHEMA).call(
                function.name, dict.fromkeys(row[0]), role="anon"
            )
            assert (status, answer["code"]) == (403, "42501")

    def test_a_schema_of_the_dashboards_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="pgmq_public"):
            section("pgmq_public")


class TestTheArticlesCalls:
    def test_the_queue_worker(self, project: Project, api: Postgrest) -> None:
        sent = send(project, {"template": "welcome", "idempotency_key": "email:welcome:1"})
        assert rpc(api, "claim_worker_lease", p_worker="email_jobs_worker", p_seconds=55) is True
        assert rpc(api, "claim_worker_lease", p_worker="email_jobs_worker", p_seconds=55) is None
        (message,) = rpc(api, "read_with_dlq", p_queue_name="email_jobs", p_vt=60, p_qty=10, p_max_read_ct=5)
        assert (message["msg_id"], message["read_ct"]) == (sent, 1)
        key = message["message"]["idempotency_key"]
        assert [rpc(api, "claim_job", p_key=key) for _ in range(2)] == [True, None]
        assert rpc(api, "queue_archive", p_queue_name="email_jobs", p_msg_id=sent) is True

    def test_defaults_are_the_articles(self, project: Project, api: Postgrest) -> None:
        send(project, {})
        (message,) = rpc(api, "read_with_dlq", p_queue_name="email_jobs")
        assert rpc(api, "queue_archive", p_queue_name="email_jobs", p_msg_id=message["msg_id"]) is True
        assert rpc(api, "claim_worker_lease", p_worker="another") is True
        assert isinstance(rpc(api, "check_queue_health"), list)

    def test_a_failed_delivery_is_postponed_by_its_queues_policy(
        self, project: Project, api: Postgrest
    ) -> None:
        sent = send(project, {}, "webhook_jobs")
        (message,) = rpc(api, "read_with_dlq", p_queue_name="webhook_jobs")
        assert rpc(api, "backoff", p_msg_id=sent, p_read_ct=message["read_ct"]) is None
        (row,) = project.read("select extract(epoch from vt - clock_timestamp()) from pgmq.q_webhook_jobs")
        assert 20 < row[0] <= 30
        assert len(project.read(f"select msg_id from redrive.attempt where msg_id = {sent}")) == 1
        emptied(project, "webhook_jobs")

    def test_a_failed_delivery_that_another_took_over_is_left_to_it(
        self, project: Project, api: Postgrest
    ) -> None:
        sent = send(project, {}, "webhook_jobs")
        rpc(api, "read_with_dlq", p_queue_name="webhook_jobs", p_vt=0)
        rpc(api, "read_with_dlq", p_queue_name="webhook_jobs")
        rpc(api, "backoff", p_msg_id=sent, p_read_ct=1)
        assert project.read(f"select msg_id from redrive.attempt where msg_id = {sent}") == []
        emptied(project, "webhook_jobs")

    def test_seconds_of_a_backoff_are_still_told(self, api: Postgrest) -> None:
        told = rpc(api, "backoff", p_attempt=3, p_base=30, p_factor=2, p_cap=3600, p_jitter=0)
        assert told == 120


class TestTheOthers:
    def test_a_key_in_two_phases(self, api: Postgrest) -> None:
        mine = {"p_key": "k", "p_queue": "email_jobs"}
        assert rpc(api, "begin_job", **mine, p_owner="a", p_lease_seconds=60) == "claimed"
        assert rpc(api, "begin_job", **mine, p_owner="b", p_lease_seconds=60) == "busy"
        assert rpc(api, "abandon_job", **mine, p_owner="a") is True
        assert rpc(api, "begin_job", **mine, p_owner="b", p_lease_seconds=0.5) == "claimed"
        assert rpc(api, "finish_job", **mine, p_owner="b", p_result={"sent": 1}) is True
        assert rpc(api, "begin_job", **mine, p_owner="a", p_lease_seconds=60) == "done"

    def test_a_lease_with_a_token(self, api: Postgrest) -> None:
        token = rpc(api, "acquire_lease", p_name="l", p_seconds=30)
        assert rpc(api, "acquire_lease", p_name="l", p_seconds=30) is None
        assert rpc(api, "renew_lease", p_name="l", p_token=token, p_seconds=30) is True
        assert rpc(api, "lease_is_mine", p_name="l", p_token=token) is True
        assert rpc(api, "release_lease", p_name="l", p_token=token) is True
        assert rpc(api, "lease_is_mine", p_name="l", p_token=token) is False

    def test_deliveries_extended_given_back_and_settled(self, project: Project, api: Postgrest) -> None:
        sent = send(project, {})
        rpc(api, "read_with_dlq", p_queue_name="email_jobs")
        mine = {"p_queue": "email_jobs", "p_msg_ids": [sent], "p_read_cts": [1]}
        assert rpc(api, "extend", **mine, p_vt=120) == [sent]
        assert rpc(api, "release", **mine) == [sent]
        rpc(api, "read_with_dlq", p_queue_name="email_jobs")
        report = {**mine, "p_read_cts": [2], "p_outcomes": ["reject"]}
        assert rpc(api, "settle", **report, p_errors=["no such address"]) == [
            {"msg_id": sent, "read_ct": 2, "verdict": "dead"}
        ]
        emptied(project, "email_jobs")

    def test_what_is_given_in_bulk_is_bounded(self, api: Postgrest) -> None:
        many = {"p_queue": "email_jobs", "p_msg_ids": list(range(1001)), "p_read_cts": [1] * 1001}
        said = "a call takes at most 1000 messages, not 1001; make several calls"
        assert refused(api, "settle", **many, p_outcomes=["done"] * 1001) == (400, said)
        assert refused(api, "extend", **many, p_vt=60) == (400, said)
        assert refused(api, "release", **many) == (400, said)

    def test_a_read_hands_out_a_thousand_at_most_whatever_is_asked_for(
        self, project: Project, api: Postgrest
    ) -> None:
        project.read("select redrive.create_queue('bulk')")
        project.read(
            "select count(*) from redrive.send_batch("
            "'bulk', (select jsonb_agg(jsonb_build_object('n', n)) from generate_series(1, 1001) n))"
        )
        status, said = refused(api, "read_with_dlq", p_queue_name="bulk", p_qty=None)
        assert status == 400 and "p_qty >= 1" in said
        assert len(rpc(api, "read_with_dlq", p_queue_name="bulk", p_qty=100_000)) == 1000

    def test_a_queue_that_is_not_there_is_named(self, api: Postgrest) -> None:
        status, said = refused(api, "read_with_dlq", p_queue_name="nowhere")
        assert status == 400
        assert "queue nowhere does not exist" in said


def receive(api: Postgrest, event_id: str, raw: bytes, **more: Any) -> dict[str, Any]:
    given = {
        "p_source": "shop", "p_event_id": event_id, "p_type": "t", "p_payload": None, "p_headers": {"a": "b"},
        "p_queue": "webhook_jobs", "p_raw": f"\\x{raw.hex()}",
    }  # fmt: skip
    (answer,) = rpc(api, "receive_event", **(given | more))
    return answer


class TestEvents:
    def test_their_numbers_and_bytes_are_what_was_sent(self, project: Project, api: Postgrest) -> None:
        raw = b'\xef\xbb\xbf{"n": 12345678901234567890.12345678901234567890, "t": "\xc3\xa9"}\n'
        answer = receive(api, "exact", raw)
        assert (answer["duplicate"], answer["conflict"]) == (False, False)
        (row,) = project.read("select raw, payload::text from redrive.webhook_event where event_id = 'exact'")
        assert row[0] == raw
        assert row[1] == '{"n": 12345678901234567890.12345678901234567890, "t": "\u00e9"}'
        (message,) = project.read(
            f"select message::text from pgmq.q_webhook_jobs where msg_id = {answer['msg_id']}"
        )
        assert message[0] == row[1]

    def test_again_is_a_duplicate_and_with_other_bytes_a_conflict(self, api: Postgrest) -> None:
        first = receive(api, "again", b'{"n": 1}')
        second = receive(api, "again", b'{"n": 1}')
        third = receive(api, "again", b'{"n": 2}')
        assert [(each["duplicate"], each["conflict"]) for each in (first, second, third)] == [
            (False, False), (True, False), (True, True)]  # fmt: skip
        assert first["id"] == second["id"] == third["id"]

    def test_a_payload_that_is_given_goes_before_the_bytes(self, project: Project, api: Postgrest) -> None:
        receive(api, "given", b'{"n": 1}', p_payload={"n": 2})
        assert project.read("select payload from redrive.webhook_event where event_id = 'given'")[0][0] == {
            "n": 2
        }

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"no json", id="text"),
            pytest.param(b"\xff\xfe{}", id="not UTF-8"),
            pytest.param(b"\x00", id="NUL"),
            pytest.param(b'{"a": "x\\u0000y"}', id="NUL as an escape"),
            pytest.param(b'{"a": "\\ud800"}', id="half a pair"),
            pytest.param(b"[" * 100_000, id="deep"),
            pytest.param(b"[" + b"1e99999," * 600 + b"1]", id="many digits"),
            pytest.param(b"1e200000", id="too many digits"),
        ],
    )
    def test_what_jsonb_cannot_hold_is_recorded_raw(
        self, project: Project, api: Postgrest, raw: bytes
    ) -> None:
        answer = receive(api, "raw", raw)
        (row,) = project.read("select raw, payload from redrive.webhook_event where event_id = 'raw'")
        assert tuple(row) == (raw, None)
        (message,) = project.read(
            f"select message from pgmq.q_webhook_jobs where msg_id = {answer['msg_id']}"
        )
        assert message[0] == {"event_id": "raw", "type": "t"}
        project.read("delete from redrive.webhook_event where event_id = 'raw'")

    def test_numbers_with_large_exponents_that_can_be_held_are(
        self, project: Project, api: Postgrest
    ) -> None:
        receive(api, "exponent", b'{"n": 1e300, "hash": "3e123456"}')
        (row,) = project.read("select payload from redrive.webhook_event where event_id = 'exponent'")
        assert row[0]["n"] == 10**300

    def test_an_event_that_cannot_be_recorded_is_refused(self, api: Postgrest) -> None:
        with pytest.raises(AssertionError, match="the type of an event"):
            receive(api, "wrong", b"{}", p_type="t" * 256)
        with pytest.raises(AssertionError, match="the raw body of an event is null"):
            receive(api, "wrong", b"{}", p_raw=None)
