"""A project that works by the articles' recipe, and what becomes of it when redrive takes its place."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

import psycopg
import pytest
from pydantic import BaseModel

from redrive import Redrive
from redrive.supabase import arguments, comparison, migration, schema
from redrive.supabase.plan import Options
from tests.supabase.test_init import snapshot
from tests.support import articles
from tests.support.cli import run
from tests.support.project import Project, Projects

pytestmark = pytest.mark.skipif(
    not articles.there(), reason="the articles do not stand beside the project, in ../shared/seeds"
)

app = Redrive()
QUEUE = "email_jobs"
OPTIONS = Options(worker="resident", api_schema="public", replace_recipe=True)
FUNCTIONS = {
    "public.read_with_dlq(text,integer,integer,integer)",
    "public.queue_archive(text,bigint)",
    "public.claim_job(text)",
    "public.claim_worker_lease(text,integer)",
    "public.check_queue_health()",
    "app.backoff(bigint,integer)",
    "public.enqueue_email(text)",
}
JOBS = {"drain-email-jobs", "queue-health-check", "purge-email-jobs-archive", "drain_webhook_jobs"}


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest", "export_ready"]
    user_id: UUID


class Event(BaseModel):
    type: str


@app.rpc("enqueue_email", key="email:{template}:{user_id}:{date}")
@app.job(QUEUE, max_attempts=5)
async def send_email(email: Email) -> None: ...


@app.job("webhook_jobs")
async def handle(event: Event) -> None: ...


def file(options: Options = OPTIONS, of: Redrive = app) -> str:
    return migration.text(migration.sections(of, options), options=arguments.line(options))


def apply(project: Project, text: str | None = None) -> list[str]:
    """Apply a file as the project's own role; what the database says beside it."""
    said: list[str] = []
    with project.connect() as owner:
        owner.add_notice_handler(lambda notice: said.append(f"{notice.severity}: {notice.message_primary}"))
        owner.execute((file() if text is None else text).encode())
    return said


def refused(project: Project, options: Options = OPTIONS, of: Redrive = app) -> str:
    """The sentence with which a file stops, having changed nothing."""
    before = snapshot(project)
    with pytest.raises(psycopg.Error) as caught:
        apply(project, file(options, of))
    assert snapshot(project) == before
    return str(caught.value.diag.message_primary)


def follow(project: Project, article: str) -> list[str]:
    """Everything that an article has its reader run, in its order."""
    found = list(articles.statements(articles.text(article)))
    with project.connect() as owner:
        owner.execute("create schema if not exists app")
        for each in found:
            owner.execute(each.encode())
    return found


def put(
    owner: psycopg.Connection[Any], queue: str, message: object, vt: str = "now()", read_ct: int = 0
) -> int:
    row = owner.execute("select pgmq.send(%s, %s::jsonb)", (queue, json.dumps(message))).fetchone()
    assert row
    owner.execute(
        f"update pgmq.q_{queue} set vt = {vt}, read_ct = %s where msg_id = %s".encode(), (read_ct, row[0])
    )
    return row[0]


FLIGHT = "now() + interval '10 minutes'"
OVER = "now() - interval '1 hour'"


def fill(project: Project) -> dict[str, int]:
    """Messages in every state that the recipe knows; their ids."""
    made: dict[str, int] = {}
    with project.connect() as owner:
        owner.execute("delete from pgmq.q_email_jobs")
        dying = put(
            owner, QUEUE, {"template": None, "idempotency_key": "dead"}, "now() - interval '1 day'", 5
        )
        assert owner.execute("select * from public.read_with_dlq('email_jobs', 60, 1, 5)").fetchall() == []
        assert owner.execute("select 1 from pgmq.a_email_jobs where msg_id = %s", (dying,)).fetchone()
        for name, vt, read_ct in (
            ("ready", OVER, 0),
            ("delayed", "now() + interval '1 hour'", 0),
            ("in flight", FLIGHT, 2),
            ("failed", OVER, 3),
            ("running", FLIGHT, 1),
            ("crashed", OVER, 1),
            ("claimed by another", OVER, 0),
            ("done", FLIGHT, 1),
        ):
            made[name] = put(owner, QUEUE, {"idempotency_key": name, "template": "welcome"}, vt, read_ct)
        made["poison"] = put(owner, QUEUE, {"template": None}, OVER, 5)
        made["keyless"] = put(owner, QUEUE, {"template": "keyless"}, OVER, 0)
        made["keyless in flight"] = put(owner, QUEUE, {"template": "keyless"}, FLIGHT, 1)
        made["keyless claimed"] = put(owner, QUEUE, {"template": "keyless"}, FLIGHT, 1)
        made["empty key claimed"] = put(owner, QUEUE, {"idempotency_key": ""}, OVER, 1)
        made["hook"] = put(owner, "webhook_jobs", {"type": "ready"})
        made["hook in flight"] = put(owner, "webhook_jobs", {"type": "running"}, FLIGHT, 1)
        put(owner, "webhook_jobs_dead", {"payload": {"type": "dead"}, "attempts": 6})
    with project.api("service_role") as worker:
        for key in ("running", "crashed", "claimed by another", "done", "", f"msg:{made['keyless claimed']}"):
            assert worker.execute("select public.claim_job(%s)", (key,)).fetchone() == (True,)
        worker.execute("select public.queue_archive('email_jobs', %s)", (made["done"],))
        assert worker.execute("select public.claim_worker_lease('email_jobs_worker', 55)").fetchone() == (
            True,
        )
        worker.execute("select public.claim_worker_lease('over', -1)")
    return made


@pytest.fixture(scope="module")
def made() -> dict[str, int]:
    return {}


@pytest.fixture(scope="module")
def recipe(projects: Projects, made: dict[str, int]) -> Generator[Project]:
    """Both articles followed, messages in every state, and schema redrive beside it. Only to be copied."""
    project = projects.make()
    for article in ("001", "004"):
        follow(project, article)
    made |= fill(project)
    apply(project, schema.text())
    yield project
    projects.drop(project)


def copy(projects: Projects, recipe: Project) -> Project:
    project = projects.copy(recipe)
    with project.admin() as admin:
        # The stand-in's jobs say for which database they are.
        admin.execute("update cron.job set database = current_database()")
    return project


@pytest.fixture
def before(projects: Projects, recipe: Project) -> Generator[Project]:
    project = copy(projects, recipe)
    yield project
    projects.drop(project)


def test_every_statement_of_the_articles_is_followed_as_it_stands_there(projects: Projects) -> None:
    project = projects.make()
    for article, expected in (("001", 35), ("004", 8)):
        followed = follow(project, article)
        assert len(followed) == expected
        assert all(each in articles.text(article) for each in followed)
    assert there(project) == FUNCTIONS
    projects.drop(project)


def there(project: Project) -> set[str]:
    """The recipe's functions that are there, ours of the same signature left out."""
    found = project.read(
        "select f from unnest(%s::text[]) f where to_regprocedure(f) is not null and coalesce("
        "obj_description(to_regprocedure(f), 'pg_proc'), '') not like '%%(redrive %%'",
        (sorted(FUNCTIONS),),
    )
    return {row[0] for row in found}


class TestWithoutTheOption:
    def test_the_file_names_all_of_the_recipe_and_changes_nothing(self, before: Project) -> None:
        said = refused(before, replace(OPTIONS, replace_recipe=False))
        for each in FUNCTIONS:
            assert f"function {each}" in said
        for each in JOBS:
            assert f"cron job {each}" in said
        assert "table public.processed_jobs" in said and "table public.worker_leases" in said
        assert "delete this file and run `redrive supabase init --replace-recipe`" in said

    def test_one_object_is_enough(self, projects: Projects, migrated: Project) -> None:
        options = replace(OPTIONS, replace_recipe=False)
        with migrated.connect() as owner:
            owner.execute("create table public.processed_jobs (idempotency_key text primary key)")
        assert ": table public.processed_jobs; delete" in refused(migrated, options)
        with migrated.connect() as owner:
            owner.execute("drop table public.processed_jobs")
            owner.execute("select cron.schedule('drain_webhook_jobs', '* * * * *', 'select 1')")
        assert ": cron job drain_webhook_jobs; delete" in refused(migrated, options)

    def test_ours_are_none_of_the_recipe_when_the_file_is_run_again(self, migrated: Project) -> None:
        text = file(replace(OPTIONS, replace_recipe=False))
        apply(migrated, text)
        apply(migrated, text)

    def test_what_only_looks_like_it_is_somebody_elses(self, migrated: Project) -> None:
        with migrated.connect() as owner:
            owner.execute(
                "create schema app; create table public.worker_leases (worker_name text, salary int)"
            )
            for of in (
                "app.backoff(a bigint, b int) returns int language sql as 'select 1 /* pgmq.set_vt */'",
                "public.claim_job(a text) returns int language sql as 'select 2 -- into processed_jobs'",
                "public.check_queue_health() returns bigint language sql as "
                "'select count(*) from pgmq.metrics_all()'",
            ):
                owner.execute(f"create function {of}".encode())
        apply(migrated, file(replace(OPTIONS, replace_recipe=False, api_schema=None)))
        apply(migrated, file(replace(OPTIONS, api_schema=None)))
        assert migrated.read("select app.backoff(1, 1) as a, public.claim_job('k') as b") == [(1, 2)]
        assert migrated.read("select to_regclass('public.worker_leases') is not null") == [(True,)]

    def test_somebody_elses_function_of_such_a_name_is_not_taken_for_it(self, migrated: Project) -> None:
        with migrated.connect() as owner:
            owner.execute(
                "create function public.check_queue_health() returns int language sql as 'select 1'"
            )
            owner.execute("create table public.processed_jobs (id int)")
        apply(migrated, file(replace(OPTIONS, replace_recipe=False, api_schema=None)))
        apply(migrated, file(replace(OPTIONS, api_schema=None)))
        assert "check_queue_health() has a name that redrive needs in schema public" in refused(migrated)
        assert migrated.read("select public.check_queue_health()") == [(1,)]


@pytest.fixture(scope="module")
def replaced(projects: Projects, recipe: Project) -> Generator[tuple[Project, list[str]]]:
    project = copy(projects, recipe)
    yield project, apply(project)
    projects.drop(project)


@pytest.fixture
def project(replaced: tuple[Project, list[str]]) -> Project:
    """Where the recipe was replaced; each test works on keys and messages of its own."""
    return replaced[0]


@pytest.fixture
def said(replaced: tuple[Project, list[str]]) -> list[str]:
    return replaced[1]


class TestReplaced:
    def test_running_the_file_again_changes_nothing_and_says_nothing(self, project: Project) -> None:
        before = snapshot(project)
        assert apply(project) == []
        assert snapshot(project) == before

    def test_the_comparison_finds_nothing(self, project: Project, recipe: Project) -> None:
        sections = migration.sections(app, OPTIONS)
        with project.connect() as owner:
            assert comparison.problems(owner, sections) == []
        with recipe.connect() as owner:
            found = "; ".join(comparison.problems(owner, sections))
        assert "functions or tables of the articles' recipe are there" in found
        assert "jobs of the articles' recipe are in pg_cron" in found

    def test_its_functions_are_gone_and_redrives_stand_there(self, project: Project) -> None:
        assert there(project) == set()
        ours = project.read("select proname from pg_proc where pronamespace = 'public'::regnamespace")
        assert {"read_with_dlq", "claim_job", "enqueue_email"} <= {row[0] for row in ours}

    def test_no_job_of_its_own_is_left_in_pg_cron(self, project: Project) -> None:
        names = [row[0] for row in project.read("select jobname from cron.job", role="postgres")]
        assert not JOBS & set(names)
        assert len(names) == len(set(names)) and "redrive health" in names

    def test_its_tables_are_kept_closed(self, project: Project) -> None:
        for name in ("processed_jobs", "worker_leases"):
            kept = f"public.{name}_before_redrive"
            assert project.read("select to_regclass(%s)", (f"public.{name}",)) == [(None,)]
            assert project.read("select relrowsecurity from pg_class where oid = %s::regclass", (kept,)) == [
                (True,)
            ]
            for role in ("anon", "authenticated"):
                assert project.read("select has_table_privilege(%s, %s, 'select')", (role, kept)) == [
                    (False,)
                ]
        assert project.read("select count(*) from public.processed_jobs_before_redrive") == [(6,)]

    @pytest.mark.parametrize("key", ["running", "crashed", "claimed by another", "done"])
    def test_a_key_claimed_before_is_done_for_claim_job_and_for_a_worker(
        self, project: Project, key: str
    ) -> None:
        with project.api("service_role") as worker:
            assert worker.execute("select public.claim_job(p_key => %s)", (key,)).fetchone() == (None,)
        with project.connect() as owner:
            sent = put(owner, QUEUE, {"idempotency_key": key}, "now() - interval '2 days'")
            claimed = owner.execute("select msg_id from redrive.claim('email_jobs', 60, 1, null)").fetchall()
            outcome = owner.execute(
                "select outcome, read_ct from pgmq.a_email_jobs where msg_id = %s", (sent,)
            ).fetchall()
            owner.execute(
                "select redrive.release('email_jobs', array[%s::bigint], array[1])",
                (claimed[0][0] if claimed else 0,),
            )
        assert (sent,) not in claimed
        assert outcome == [("duplicate", 0)]

    def test_keys_are_remembered_as_long_as_if_they_had_been_done_now(self, project: Project) -> None:
        found = project.read(
            "select queue, extract(epoch from expires_at - now())::int / 86400 from redrive.key "
            "where key = 'done' order by queue"
        )
        assert found == [("", 29), (QUEUE, 29)]

    def test_a_live_message_whose_key_was_claimed_is_a_dead_letter(
        self, project: Project, made: dict[str, int]
    ) -> None:
        letters = project.read("select * from redrive.dead_letters('email_jobs')")
        unknown = [each for each in letters if each.reason == "rejected"]
        names = ("running", "crashed", "claimed by another", "keyless claimed", "empty key claimed")
        assert {each.original_msg_id for each in unknown} == {made[name] for name in names}
        assert {each.error for each in unknown} == {"claimed before redrive, outcome unknown"}
        assert project.read(
            "select distinct outcome from pgmq.a_email_jobs where msg_id = any (%s)",
            ([made[name] for name in names],),
        ) == [("dead",)]

    def test_it_says_which_messages_they_are(
        self, said: list[str], project: Project, made: dict[str, int]
    ) -> None:
        [told] = [each for each in said if each.startswith("WARNING: queue email_jobs")]
        ids = sorted(
            made[name]
            for name in ("running", "crashed", "claimed by another", "keyless claimed", "empty key claimed")
        )
        assert f"outcome unknown, are dead letters now: {', '.join(map(str, ids))};" in told
        assert any(each.endswith("for claim_job and for queue email_jobs: 5") for each in said)

    def test_such_a_letter_stays_dead_unless_somebody_forces_it(
        self, project: Project, made: dict[str, int]
    ) -> None:
        [(dead_id,)] = project.read(
            "select dead_id from redrive.dead_letters('email_jobs') where original_msg_id = %s",
            (made["running"],),
        )
        assert project.read(
            "select status from redrive.redrive('email_jobs', array[%s::bigint])", (dead_id,)
        ) == [("key done",)]

    def test_dead_letters_of_the_recipe_are_listed_and_redriven(self, project: Project) -> None:
        [letter] = [
            each
            for each in run("dlq", "list", QUEUE, "--json", "--database", project.url).json
            if each["key"] is None and each["reason"] is None
        ]
        assert letter["payload"] == {"template": None, "idempotency_key": "dead"}
        dead_id = str(letter["dead_id"])
        assert run("dlq", "show", QUEUE, dead_id, "--database", project.url).code == 0
        why = run("why", QUEUE, str(letter["original_msg_id"]), "--database", project.url)
        assert why.code == 0 and f"is dead letter {dead_id}" in why.out
        assert run("dlq", "redrive", QUEUE, dead_id, "--database", project.url).code == 0

    def test_dead_letters_of_the_other_article_are_taken_in(self, project: Project) -> None:
        ran = run(
            "dlq",
            "import",
            "webhook_jobs_dead",
            "--queue",
            "webhook_jobs",
            "--yes",
            "--database",
            project.url,
        )
        assert (ran.code, ran.out) == (
            0,
            "1 message of webhook_jobs_dead became dead letters of queue webhook_jobs\n",
        )
        assert project.read("select payload, attempts from redrive.dead_letters('webhook_jobs')") == [
            ({"type": "dead"}, 6)
        ]

    def test_what_its_worker_had_only_read_has_a_new_id_which_nobody_archives_by_the_old_one(
        self, project: Project, said: list[str], made: dict[str, int]
    ) -> None:
        new = dict(
            project.read(
                "select coalesce(message ->> 'idempotency_key', 'keyless in flight'), msg_id "
                "from pgmq.q_email_jobs "
                "where read_ct > 0 and vt > now() and message ->> 'template' in ('welcome', 'keyless')"
            )
        )
        for name in ("in flight", "keyless in flight"):
            assert new[name] > max(made.values())
            assert any(f"{made[name]} is {new[name]}" in each for each in said)
            key = name if name == "in flight" else f"msg:{made[name]}"
            with project.api("service_role") as worker:
                claimed = worker.execute("select public.claim_job(p_key => %s)", (key,)).fetchone()
                archived = worker.execute(
                    "select public.queue_archive('email_jobs', %s)", (made[name],)
                ).fetchone()
            assert (claimed, archived) == ((None,), (False,))

    def test_what_nobody_had_begun_is_as_it_was(self, project: Project, made: dict[str, int]) -> None:
        kept = {row[0] for row in project.read("select msg_id from pgmq.q_email_jobs")}
        assert {made[name] for name in ("ready", "delayed", "failed", "keyless")} <= kept
        kept = {row[0] for row in project.read("select msg_id from pgmq.q_webhook_jobs")}
        assert {made["hook"], made["hook in flight"]} <= kept

    def test_a_lease_that_is_held_is_held_on_and_one_that_is_over_is_not(self, project: Project) -> None:
        assert project.read("select name, held, token > 0 from redrive.leases()") == [
            ("email_jobs_worker", True, True)
        ]
        with project.api("service_role") as worker:
            lease = worker.execute(
                "select public.claim_worker_lease(p_worker => 'email_jobs_worker')"
            ).fetchone()
        assert lease == (None,)


def test_nothing_runs_twice_and_nothing_is_lost(before: Project, made: dict[str, int]) -> None:
    apply(before)
    with before.connect() as owner:
        live = owner.execute(
            "update pgmq.q_email_jobs set vt = now() - interval '1 s' returning msg_id"
        ).fetchall()
        ran = owner.execute("select msg_id from redrive.claim('email_jobs', 60, 100, 'w')").fetchall()
        dead = owner.execute("select original_msg_id from redrive.dead_letters('email_jobs')").fetchall()
    # The poison had used up its attempts: it is a dead letter without a run.
    assert sorted(ran) == sorted(set(live) - {(made["poison"],)})
    assert len(ran) == 6 and (made["poison"],) in dead
    assert len(dead) == 7


def test_a_worker_of_the_recipe_that_is_in_the_midst_of_it_loses_no_message(
    before: Project, made: dict[str, int]
) -> None:
    """It has read a message, asks for its key meanwhile, is told nothing, and archives as the articles do."""
    id = made["in flight"]

    def work() -> tuple[Any, Any]:
        claimed: Any = None
        try:
            with before.api("service_role") as worker:
                claimed = worker.execute("select public.claim_job(p_key => 'in flight')").fetchone()
        except psycopg.Error as error:
            claimed = type(error)
        with before.api("service_role") as worker:
            archived = worker.execute(
                "select public.queue_archive(p_queue_name => 'email_jobs', p_msg_id => %s)", (id,)
            ).fetchone()
        return claimed, archived

    # The keys have been read, the functions and tables are still there.
    first, then, rest = file().partition("-- The recipe: its functions")
    assert then
    with before.connect() as owner, before.admin() as admin, ThreadPoolExecutor(1) as pool:
        owner.execute(first.encode())
        working = pool.submit(work)
        while not admin.execute(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%claim_job%'"
        ).fetchone():
            time.sleep(0.01)
        owner.execute(rest[rest.index("\n") :].encode())
        claimed, archived = working.result(timeout=30)
    assert claimed is psycopg.errors.UndefinedTable
    assert archived == (False,)
    assert before.read(
        "select read_ct from pgmq.q_email_jobs where message ->> 'idempotency_key' = 'in flight'"
    ) == [(2,)]


def test_a_key_that_is_no_string_is_found_as_javascript_writes_it(before: Project) -> None:
    with before.connect() as owner:
        owner.execute("delete from pgmq.q_email_jobs")
        for key, written in (
            ('{"b": 1.0, "a": [2, "x 1.0"]}', '{"b":1,"a":[2,"x 1.0"]}'),
            ("[1, 2]", "[1,2]"),
            ("7.0", "7"),
            ("9007199254740993", "9007199254740992"),
            ("1e400", "[broken"),
            ("8", "8.5"),
            ('"[3, 4]"', "[3,4]"),
        ):
            owner.execute(
                "select pgmq.send('email_jobs', %s::jsonb)",
                (f'{{"idempotency_key": {key}, "of": "{len(key)}"}}',),
            )
            owner.execute("insert into public.processed_jobs values (%s)", (written,))
    apply(before)
    left = before.read("select left(message ->> 'idempotency_key', 6) from pgmq.q_email_jobs order by msg_id")
    assert left == [("100000",), ("8",), ("[3, 4]",)]


def test_what_was_only_read_is_handed_out_again_not_before_its_key_is_free(
    before: Project, made: dict[str, int]
) -> None:
    """Else who works by the articles' calls would be told that somebody has it, and archive it unrun."""
    apply(before)
    assert (
        before.read(
            "select m.vt >= k.expires_at as free, m.vt < now() + interval '16 minutes' as soon "
            "from pgmq.q_email_jobs m "
            "join redrive.key k on k.queue = '' and k.owner = 'taken over by redrive' and k.key = "
            "coalesce(m.message ->> 'idempotency_key', %s) where m.read_ct in (1, 2)",
            (f"msg:{made['keyless in flight']}",),
        )
        == [(True, True)] * 2
    )


class TestPartOfIt:
    def test_only_the_webhooks_article(self, projects: Projects, migrated: Project) -> None:
        follow(migrated, "004")
        apply(migrated)
        assert there(migrated) == set()
        assert migrated.read("select count(*) from app.webhook_events") == [(0,)]
        assert migrated.read("select count(*) from redrive.key") == [(0,)]

    def test_an_app_without_the_rpc_keeps_the_function_that_sends(self, before: Project) -> None:
        one = Redrive()

        @one.job(QUEUE)
        async def send(email: Email) -> None: ...

        assert send.queue == QUEUE
        apply(before, file(of=one))
        assert there(before) == {"public.enqueue_email(text)"}
        with before.api("authenticated") as user:
            assert user.execute("select public.enqueue_email('welcome')").fetchone()
        apply(before, file(replace(OPTIONS, replace_recipe=False), one))

    def test_keys_alone(self, migrated: Project) -> None:
        with migrated.connect() as owner:
            owner.execute("create table public.processed_jobs (idempotency_key uuid)")
            owner.execute(
                "insert into public.processed_jobs values ('8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33'), "
                "('8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33'), (null)"
            )
        apply(migrated)
        assert migrated.read("select queue, key, state from redrive.key order by queue") == [
            ("", "8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33", "done"),
            (QUEUE, "8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33", "done"),
        ]

    def test_keys_that_redrive_cannot_have_are_named(self, migrated: Project) -> None:
        with migrated.connect() as owner:
            owner.execute("create table public.processed_jobs (idempotency_key text, processed_at text)")
            owner.execute(
                "insert into public.processed_jobs values (repeat('x', 513), ''), ('', 'never'), ('k', null)"
            )
        said = [each for each in apply(migrated) if each.startswith("WARNING")]
        assert len(said) == 1 and "1 to 512 characters" in said[0] and "x" * 40 in said[0]
        assert migrated.read("select distinct key from redrive.key") == [("k",)]


@pytest.fixture(scope="module")
def shared(projects: Projects, recipe: Project) -> Generator[Project]:
    """For tests that put back what they changed."""
    project = copy(projects, recipe)
    yield project
    projects.drop(project)


class TestRefused:
    def test_a_queue_that_is_to_know_the_keys_and_is_not_there(self, shared: Project) -> None:
        said = refused(shared, replace(OPTIONS, keys_of=(QUEUE, "mails")))
        assert "queue mails is not one of redrive's" in said and "--keys-of QUEUE" in said

    @pytest.mark.parametrize(
        ("change", "back", "says"),
        [
            (
                "alter table public.processed_jobs rename idempotency_key to k",
                "alter table public.processed_jobs rename k to idempotency_key",
                "table public.processed_jobs has no column idempotency_key",
            ),
            (
                "alter table public.worker_leases rename lease_until to ends",
                "alter table public.worker_leases rename ends to lease_until",
                "table public.worker_leases has no column lease_until",
            ),
            (
                "alter table public.worker_leases owner to postgres",
                "alter table public.worker_leases owner to supabase_postgres",
                "table public.worker_leases of the recipe belongs to role postgres, and you are "
                "supabase_postgres, so redrive cannot take it over; as postgres run: alter table "
                "public.worker_leases owner to supabase_postgres",
            ),
            (
                "alter table public.worker_leases set schema app; "
                "create view public.worker_leases as select * from app.worker_leases",
                "drop view public.worker_leases; alter table app.worker_leases set schema public",
                "function public.claim_worker_lease(text,integer) writes to worker_leases, and "
                "public.worker_leases is no table, so redrive cannot take over what it wrote; stop its "
                "workers, make app.worker_leases table public.worker_leases in place of what has that name",
            ),
            (
                "create view public.health as select public.claim_job('k') as got",
                "drop view public.health",
                "function public.claim_job(text) of the recipe cannot be dropped: view public.health depends",
            ),
            (
                "create table public.processed_jobs_before_redrive ()",
                "drop table public.processed_jobs_before_redrive",
                "cannot be kept as public.processed_jobs_before_redrive",
            ),
            (
                "select cron.schedule('drain-email-jobs', '* * * * *', 'select 1')",
                "select cron.unschedule('drain-email-jobs')",
                "cron job drain-email-jobs belongs to role postgres, and would go on beside redrive's; as "
                "postgres run: select cron.unschedule('drain-email-jobs')",
            ),
            (
                "alter function public.claim_job(text) owner to postgres",
                "alter function public.claim_job(text) owner to supabase_postgres",
                "it belongs to role postgres, and you are supabase_postgres",
            ),
        ],
        ids=["keys", "leases", "another's table", "view", "dependent", "kept", "cron job", "owner"],
    )
    def test_what_is_in_the_way_is_named(self, shared: Project, change: str, back: str, says: str) -> None:
        with shared.admin() as admin:
            admin.execute(change.encode())
        assert says in refused(shared)
        with shared.admin() as admin:
            admin.execute(back.encode())


def test_keys_in_a_table_of_another_schema_are_not_lost_without_a_word(before: Project) -> None:
    with before.connect() as owner:
        owner.execute("alter table public.processed_jobs set schema app")
        [text] = owner.execute(
            "select replace(pg_get_functiondef('public.claim_job(text)'::regprocedure), 'public.', 'app.')"
        ).fetchone() or [""]
        owner.execute(text.replace("FUNCTION app.", "FUNCTION public.").encode())
    said = refused(before)
    assert "function public.claim_job(text) writes to processed_jobs" in said
    assert "(alter table app.processed_jobs set schema public), and run this again" in said


def test_keys_that_redrive_has_already_stay_done_and_those_that_run_become_it(before: Project) -> None:
    with before.connect() as owner:
        owner.execute("select redrive.adopt_queue('email_jobs')")
        owner.execute("select redrive.begin_job('done', 'w', 60, 'email_jobs')")
        owner.execute("select redrive.claim_job('crashed', 'email_jobs')")
    apply(before)
    assert before.read(
        "select key, state, lease_until, done_at is not null as done, expires_at > now() as kept "
        "from redrive.key where queue = 'email_jobs' and key in ('done', 'crashed') order by key"
    ) == [("crashed", "done", None, True, True), ("done", "done", None, True, True)]


def test_many_keys_and_messages_are_not_compared_one_with_another(before: Project) -> None:
    with before.connect() as owner:
        owner.execute(
            "insert into public.processed_jobs "
            "select 'email:' || gen_random_uuid() from generate_series(1, 20000)"
        )
        owner.execute(
            "insert into pgmq.q_email_jobs (vt, message) "
            "select now(), jsonb_build_object('n', n) from generate_series(1, 20000) n"
        )
    began = time.monotonic()
    apply(before)
    # 200,000 keys and 100,000 messages took 15 s on two busy cores.
    assert time.monotonic() - began < 60
    assert before.read("select count(*) from redrive.key where queue = 'email_jobs'") == [(20_005,)]
