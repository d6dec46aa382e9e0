"""The generated worker, under Deno and in SQL: every message ends, as done or as a dead letter."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from redrive import Backoff, Redrive
from redrive.errors import ConfigError
from redrive.supabase.edge import files
from redrive.supabase.plan import Options
from tests.support.edge import Function, served, written
from tests.support.node import Node
from tests.support.postgrest import (
    LEGACY,
    PUBLISHABLE,
    SECRET,
    Postgrest,
    install,
    serving,
)
from tests.support.project import Project, Projects

QUEUE = "email_jobs"
TICK = "a secret that cron sends"
CALLS = ("acquire_lease", "read_with_dlq", "finish_job", "queue_archive")
# A secret key whose beginning is another's whole.
DOTTED = "sb_secret_abc.def/+="
REPORTS = {"finish_job", "queue_archive", "abandon_job", "settle"}
KEYS = json.dumps({"default": SECRET, "other": DOTTED})
# A job says what it does; each run is a line of the log.
HANDLERS = """
import type { Handlers, Job } from "./declared.ts";
const work = async (payload: { do?: string; seconds?: number }, job: Job) => {
  console.log(`ran ${job.queue} ${job.id} attempt ${job.attempt} key ${job.key}`);
  if (payload.do === "fail") throw new TypeError("no \\0 template");
  if (payload.do === "throw") throw "a text";
  if (payload.do === "stray") {
    Promise.reject(new Error("a stray promise"));
    setTimeout(() => { throw new Error("a stray timer"); });
    await new Promise((done) => setTimeout(done, 20));
  }
  if (payload.do === "bare") throw Object.create(null);
  if (payload.seconds) await new Promise((done) => setTimeout(done, payload.seconds! * 1000));
};
export const handlers: Handlers = {
  email_jobs: work,
  brief(payload, job) {
    if (payload.do === "throw at once") throw new Error("at once");
    return work(payload, job);
  },
};
"""
# Whatever a handler may throw, and what is recorded of it.
ODD = {
    "Object.create(null)": "Error: {}",
    '{ toString() { throw new Error("no"); }, toJSON() { throw 1; } }': "Error: object that cannot be",
    "new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 1; } })": "Error: object that cannot be",
    "undefined": "Error: undefined",
    "null": "Error: null",
    'Symbol("x")': "Error: Symbol(x)",
    '{ message: "from an API", code: 5 }': "Error: from an API",
    "but({ message: undefined })": "Error: ",
    "but({ message: { a: 1 } })": 'Error: {"a":1}',
    "but({ name: 5 })": "5: x",
    "but({ name: undefined })": "Error: x",
    "but({ stack: [] })": "Error: x",
    'new Error("a\\0b\\uD800")': "Error: ab\ufffd",
}
THROWN = """
import { logged, told } from "./thrown.ts";
const but = (changes: object) => Object.assign(new Error("x"), changes);
for (const each of [%s, but({ stack: "s".repeat(5_000_000) })] as unknown[]) {
  const { type, text, trace } = told(each);
  console.log(JSON.stringify([`${type}: ${text}`, trace.length <= 20_000, logged(each) !== ""]));
}
"""


def app() -> Redrive:
    made = Redrive()

    async def work(payload: dict[str, Any]) -> None: ...

    made.job(QUEUE, max_attempts=3, backoff=Backoff(base=0))(work)
    made.job(
        "brief", max_attempts=2, visibility_timeout=1, timeout=2, concurrency=1, backoff=Backoff(base=0)
    )(work)
    return made


def create(project: Project) -> None:
    install(project)
    for queue, job in app().jobs.items():
        project.read("select redrive.create_queue(%s, %s)", [queue, json.dumps(job.policy.declared())])


def send(project: Project, payload: object = None, queue: str = QUEUE, *, times: int = 1) -> list[int]:
    sql = "select redrive.send(%s, %s) from generate_series(1, %s)"
    return [row[0] for row in project.read(sql, [queue, json.dumps(payload or {}), times])]


def ended(project: Project, queue: str = QUEUE) -> dict[int, str]:
    """The outcome of each message that is archived."""
    rows = project.read(f"select msg_id, outcome from pgmq.a_{queue}")
    return {row[0]: row[1] for row in rows}


def dead(project: Project, queue: str = QUEUE) -> list[Any]:
    return project.read("select * from redrive.dead_letters(%s)", [queue])


def waiting(project: Project, queue: str = QUEUE) -> int:
    return project.read(f"select count(*) from pgmq.q_{queue}")[0][0]


def elapse(project: Project) -> None:
    """What a worker held when it was killed runs out."""
    for queue in (QUEUE, "brief"):
        project.read(f"update pgmq.q_{queue} set vt = clock_timestamp() where vt > clock_timestamp()")
    project.read("update redrive.key set lease_until = clock_timestamp() where state = 'running'")
    project.read("delete from redrive.lease where name like 'redrive.tick:%'")


@pytest.fixture(scope="module")
def shared_project(projects: Projects) -> Generator[Project]:
    made = projects.make(migrated=True)
    create(made)
    yield made
    projects.drop(made)


@pytest.fixture
def project(shared_project: Project) -> Project:
    """The module's one, with nothing in its queues."""
    tables = ", ".join(
        f"pgmq.{kind}" for each in (QUEUE, "brief") for kind in (f"q_{each}", f"a_{each}", f"q_{each}_dlq")
    )
    kept = ", ".join(f"redrive.{each}" for each in ("key", "sent_key", "lease", "attempt", "worker"))
    shared_project.read(f"truncate {tables}, {kept} restart identity")
    return shared_project


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The function, its budget short, with handlers that do as they are told."""
    made = tmp_path_factory.mktemp("functions")
    written(made, app(), "worker", interval=3)
    (made / "redrive-worker" / "handlers.ts").write_text(HANDLERS)
    return made / "redrive-worker"


@pytest.fixture(scope="module")
def shared(shared_project: Project) -> Postgrest:
    return Postgrest(shared_project)


@pytest.fixture(scope="module")
def url(shared: Postgrest) -> Generator[str]:
    with serving(shared) as found:
        yield found


@pytest.fixture
def variables(url: str) -> dict[str, str]:
    return {
        "SUPABASE_URL": url,
        "SUPABASE_SECRET_KEYS": KEYS,
        "SUPABASE_SERVICE_ROLE_KEY": LEGACY,
        "REDRIVE_TICK_SECRET": f"another,{TICK}",
    }


@pytest.fixture(scope="module")
def worker(node: Node, folder: Path, url: str) -> Generator[Function]:
    variables = {"SUPABASE_URL": url, "SUPABASE_SECRET_KEYS": KEYS}
    with served(node, folder, {**variables, "REDRIVE_TICK_SECRET": f"another,{TICK}"}) as function:
        yield function


@pytest.fixture
def api(shared: Postgrest, worker: Function, project: Project) -> Postgrest:
    """The module's one, which remembers nothing."""
    worker.forget()
    shared.calls.clear()
    shared.trouble = lambda name, arguments: None
    return shared


def counts(processed: int = 0, failed: int = 0, skipped: int = 0) -> tuple[int, dict[str, int]]:
    return 200, {"processed": processed, "failed": failed, "skipped": skipped}


def runs(worker: Function, queue: str, ids: list[int]) -> list[str]:
    return [
        line for line in worker.log.splitlines() if any(line.startswith(f"ran {queue} {id} ") for id in ids)
    ]


class TestATick:
    def test_works_until_nothing_is_left(self, worker: Function, api: Postgrest, project: Project) -> None:
        sent = send(project, times=10)
        assert worker.tick(QUEUE, SECRET) == counts(processed=10)
        assert ended(project) == dict.fromkeys(sent, "done")
        assert worker.tick(QUEUE, SECRET) == counts()
        assert project.read("select name from redrive.lease") == []

    def test_tells_of_failures_until_the_attempts_are_spent(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        (sent,) = send(project, {"do": "fail", "idempotency_key": "k"})
        assert worker.tick(QUEUE, SECRET) == counts(failed=3)
        (letter,) = dead(project)
        assert (letter.original_msg_id, letter.attempts, letter.reason) == (sent, 3, "failed")
        assert (letter.error, letter.key) == ("TypeError: no  template", "k")
        told = project.read("select attempt, error_type, traceback from redrive.attempt order by attempt")
        assert [(each.attempt, each.error_type) for each in told] == [(n, "TypeError") for n in (1, 2, 3)]
        assert "handlers.ts" in told[0].traceback
        assert project.read("select * from redrive.key") == []

    def test_takes_whatever_is_thrown(self, worker: Function, api: Postgrest, project: Project) -> None:
        send(project, {"do": "throw"})
        assert worker.tick(QUEUE, SECRET) == counts(failed=3)
        assert dead(project)[0].error == "Error: a text"

    def test_outlives_what_a_handler_left_behind(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        send(project, {"do": "stray"})
        assert worker.tick(QUEUE, SECRET) == counts(processed=1)
        assert "a stray promise" in worker.log
        assert "a stray timer" in worker.log
        assert worker.tick(QUEUE, SECRET) == counts()

    def test_asks_for_no_key_where_a_message_has_none(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        keyed, keyless = send(project, {"idempotency_key": "msg:2"}), send(project)
        assert keyless == [2]
        assert worker.tick(QUEUE, SECRET) == counts(processed=2)
        assert len(runs(worker, QUEUE, keyed + keyless)) == 2
        assert project.read("select key from redrive.key") == [("msg:2",)]

    def test_runs_a_key_once_however_often_it_was_sent(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        sent = send(project, {"idempotency_key": "once"}, times=3)
        # Those whose key is busy come again, free of charge.
        until(lambda: elapse(project) or (worker.tick(QUEUE, SECRET) and not waiting(project)))
        assert ended(project) == dict.fromkeys(sent, "done")
        assert len(runs(worker, QUEUE, sent)) == 1
        assert project.read("select * from redrive.attempt") == []

    def test_leaves_a_key_to_who_works_on_it_and_charges_nothing(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        send(project, {"idempotency_key": "busy"})
        project.read("select redrive.begin_job('busy', 'another', 60, %s)", [QUEUE])
        assert worker.tick(QUEUE, SECRET) == counts(skipped=1)
        assert waiting(project) == 1
        project.read("select redrive.abandon_job('busy', 'another', %s)", [QUEUE])
        elapse(project)
        assert worker.tick(QUEUE, SECRET) == counts(processed=1)
        assert "attempt 1 key busy" in worker.log

    def test_holds_a_message_that_takes_longer_than_its_timeout(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        send(project, {"do": "bare"}, "brief")
        assert worker.tick("brief", SECRET) == counts(failed=2)
        (sent,) = send(project, {"seconds": 1.6}, "brief")
        assert worker.tick("brief", SECRET) == counts(processed=1)
        assert len(runs(worker, "brief", [sent])) == 1
        assert project.read("select read_ct from pgmq.a_brief where msg_id = %s", [sent]) == [(1,)]
        held = [given["p_msg_ids"] for name, given in api.calls if name == "extend"]
        assert len(held) >= 3
        # And none that has ended.
        assert held == [[sent]] * len(held)

    def test_ends_an_attempt_that_takes_too_long(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        # The time of this one is over while the next runs.
        send(project, {"do": "throw at once"}, "brief")
        assert worker.tick("brief", SECRET) == counts(failed=2)
        (sent,) = send(project, {"seconds": 20}, "brief")
        assert worker.tick("brief", SECRET) == counts(failed=1)
        told = project.read("select error_type from redrive.attempt where msg_id = %s", [sent])
        assert told == [("TimeoutError",)]

    def test_begins_nothing_when_its_time_is_over(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        send(project, {"seconds": 0.5}, "brief", times=9)
        began = time.monotonic()
        status, told = worker.tick("brief", SECRET)
        assert time.monotonic() - began < 3.5
        assert status == 200
        assert 0 < told["processed"] < 9
        assert project.read("select count(*) from pgmq.q_brief where read_ct > 0")[0][0] == 0

    def test_leaves_the_queue_to_another_tick(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        send(project)
        project.read("select redrive.acquire_lease('redrive.tick:email_jobs', 60)")
        reason = {"reason": "another tick works this queue"}
        assert worker.tick(QUEUE, SECRET) == (200, {**counts()[1], **reason})
        assert waiting(project) == 1

    def test_passes_the_queue_to_the_functions_of_keys(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        send(project, {"do": "fail", "idempotency_key": "a"}, "brief")
        send(project, {"idempotency_key": "b"}, "brief")
        worker.tick("brief", SECRET)
        keyed = [given for name, given in api.calls if name in ("begin_job", "finish_job", "abandon_job")]
        assert len(keyed) >= 4
        assert {given["p_queue"] for given in keyed} == {"brief"}


class TestWhoMayCall:
    @pytest.mark.parametrize(
        "headers",
        [{"apikey": SECRET}, {"apikey": DOTTED}, {"Authorization": f"Bearer {TICK}"}, {"apikey": "another"},
         {"Authorization": f"Bearer {LEGACY}"}],
        ids=["secret key", "another secret key", "tick secret", "another tick secret", "legacy key"],
    )  # fmt: skip
    def test_whoever_has_one_of_the_secrets(
        self,
        node: Node,
        folder: Path,
        worker: Function,
        api: Postgrest,
        variables: dict[str, str],
        headers: dict[str, str],
    ) -> None:
        if LEGACY in str(headers):
            # A project of before the new keys: its key is a JWT, and goes in both headers.
            with served(node, folder, {**variables, "SUPABASE_SECRET_KEYS": ""}) as old:
                assert old.post("/", b'{"queue": "brief"}', headers)[0] == 200
        else:
            assert worker.post("/redrive-worker", b'{"queue": "brief"}', headers)[0] == 200

    @pytest.mark.parametrize(
        "headers",
        [{}, {"apikey": ""}, {"apikey": PUBLISHABLE}, {"apikey": SECRET[:-1]}, {"apikey": f"another,{TICK}"},
         {"apikey": DOTTED.partition(".")[0]},
         {"Authorization": SECRET + "x"}, {"Authorization": "Bearer"}],
    )  # fmt: skip
    def test_nobody_else(self, worker: Function, api: Postgrest, headers: dict[str, str]) -> None:
        assert worker.post("/redrive-worker", b'{"queue": "brief"}', headers) == (
            401,
            "this takes a secret\n",
        )
        assert api.calls == []

    def test_nobody_where_no_secret_is_set(self, node: Node, folder: Path, url: str, api: Postgrest) -> None:
        with served(
            node, folder, {"SUPABASE_URL": url, "SUPABASE_SECRET_KEYS": "sb_secr: no JSON"}
        ) as open_one:
            for headers in ({}, {"apikey": ""}, {"Authorization": "Bearer "}):
                assert open_one.post("/", b'{"queue": "brief"}', headers)[0] == 401

    def test_what_is_asked_for_has_to_be_there(self, worker: Function, api: Postgrest) -> None:
        key = {"apikey": SECRET}
        for body in (
            b"",
            b"null",
            b"[]",
            b'{"queue": "nowhere"}',
            b'{"queue": "constructor"}',
            b'{"queue": 1}',
            b'{"queue": ["brief"]}',
            b'{"queue": {"toString": 1}}',
        ):
            status, said = worker.post("/redrive-worker", body, key)
            assert (status, said) == (404, "name one of: brief, email_jobs\n")
        assert worker.post("/redrive-worker", b"", key, method="GET")[0] == 405
        assert api.calls == []


class TestTrouble:
    @pytest.mark.parametrize("name", CALLS)
    def test_with_the_database_is_answered_503_without_a_secret(
        self, worker: Function, api: Postgrest, project: Project, name: str
    ) -> None:
        (sent,) = send(project, {"idempotency_key": "k"}, "brief")
        api.trouble = lambda called, arguments: 503 if called == name else None
        status, said = worker.tick("brief", SECRET)
        assert status == 503
        assert said.startswith(name)
        assert SECRET not in said + worker.log
        api.trouble = lambda called, arguments: None
        elapse(project)
        worker.tick("brief", SECRET)
        assert ended(project, "brief") == {sent: "done"}

    def test_with_the_database_for_a_moment_is_no_trouble(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        """Of each call that reports an end, the first is refused, or done and its answer lost."""
        for kind in (503, "lost"):
            met: set[str] = set()

            def trouble(name: str, arguments: Any, met: set[str] = met, kind: Any = kind) -> Any:
                first = name in REPORTS and name not in met
                met.add(name)
                return kind if first else None

            api.trouble = trouble
            done = send(project, {"idempotency_key": f"done {kind}"}, "brief")
            assert worker.tick("brief", SECRET) == counts(processed=1)
            send(project, {"do": "fail", "idempotency_key": f"fails {kind}"}, "brief")
            assert worker.tick("brief", SECRET) == counts(failed=2)
            assert met >= REPORTS
            assert len(runs(worker, "brief", done)) == 1
        assert waiting(project, "brief") == 0
        assert [each.attempts for each in dead(project, "brief")] == [2, 2]

    def test_a_key_that_cannot_be_asked_for_is_a_failed_attempt(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        project.read("select pgmq.send(%s, %s::jsonb)", [QUEUE, json.dumps({"idempotency_key": "k" * 513})])
        assert worker.tick(QUEUE, SECRET) == counts(failed=3)
        assert "key is 513 characters" in dead(project)[0].error

    def test_an_answer_that_is_lost_leaves_no_message_behind(
        self, worker: Function, api: Postgrest, project: Project
    ) -> None:
        (sent,) = send(project)
        api.trouble = lambda called, arguments: "lost" if called == "read_with_dlq" else None
        worker.tick(QUEUE, SECRET)
        elapse(project)
        api.trouble = lambda called, arguments: None
        worker.tick(QUEUE, SECRET)
        assert ended(project) == {sent: "done"}
        assert len(runs(worker, QUEUE, [sent])) == 1


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it has not come to that in 20 s"
        time.sleep(0.02)


class TestAFunctionThatIsKilled:
    def killed(
        self, node: Node, folder: Path, variables: Mapping[str, str], when: Callable[[Function], object]
    ) -> str:
        """What one has logged that was killed when that came about."""
        with served(node, folder, variables) as function:
            asked = Thread(target=_ignoring, args=(lambda: function.tick(QUEUE, SECRET),))
            asked.start()
            until(lambda: when(function))
            function.kill()
            asked.join()
            return function.log

    def test_in_its_handler_comes_to_an_end_as_a_dead_letter(
        self,
        node: Node,
        folder: Path,
        variables: dict[str, str],
        api: Postgrest,
        project: Project,
        worker: Function,
    ) -> None:
        (sent,) = send(project, {"seconds": 60})
        other = send(project, {"seconds": 60}, times=9)
        for _ in range(3):
            project.read(
                f"update pgmq.q_{QUEUE} set vt = clock_timestamp() + interval '1 hour' where msg_id <> {sent}"
            )
            self.killed(node, folder, variables, lambda function: f"ran {QUEUE} {sent}" in function.log)
            elapse(project)
        project.read(f"select redrive.cancel('{QUEUE}', %s)", [other])
        assert worker.tick(QUEUE, SECRET) == counts()
        (letter,) = dead(project)
        assert (letter.original_msg_id, letter.attempts) == (sent, 3)

    def test_has_charged_only_what_it_ran(
        self, node: Node, folder: Path, variables: dict[str, str], api: Postgrest, project: Project
    ) -> None:
        send(project, {"seconds": 60}, times=20)
        self.killed(node, folder, variables, lambda function: function.log.count("ran ") == 4)
        assert project.read(f"select count(*) from pgmq.q_{QUEUE} where read_ct > 0")[0][0] == 4

    def test_between_done_and_archived_does_not_run_it_again(
        self,
        node: Node,
        folder: Path,
        variables: dict[str, str],
        api: Postgrest,
        project: Project,
        worker: Function,
    ) -> None:
        (sent,) = send(project, {"idempotency_key": "k"})
        api.trouble = lambda name, arguments: "held" if name == "finish_job" else None
        log = self.killed(
            node,
            folder,
            variables,
            lambda _: project.read("select key from redrive.key where state = 'done'"),
        )
        api.trouble = lambda name, arguments: None
        assert f"ran {QUEUE} {sent}" in log
        elapse(project)
        assert worker.tick(QUEUE, SECRET) == counts(skipped=1)
        assert ended(project) == {sent: "done"}
        assert runs(worker, QUEUE, [sent]) == []


def _ignoring(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError:
        return


class Killed(Exception):
    pass


class Replay:
    """The worker's calls in their order, made by this test; it `dies` with the call of that number."""

    def __init__(self, api: Postgrest, *, dies: int | None = None, fails: bool = False) -> None:
        self.api = api
        self.dies = dies
        self.fails = fails
        self.made = 0
        self.ran: list[int] = []

    def call(self, name: str, **arguments: Any) -> Any:
        status, answer = self.api.call(name, arguments)
        assert status == 200, answer
        self.made += 1
        if self.made == self.dies:
            raise Killed
        return answer

    def tick(self) -> None:
        token = self.call("acquire_lease", p_name=f"redrive.tick:{QUEUE}", p_seconds=30)
        assert token is not None
        while got := self.call("read_with_dlq", p_queue_name=QUEUE, p_vt=60, p_qty=1, p_max_read_ct=3):
            self.work(got[0])
        self.call("release_lease", p_name=f"redrive.tick:{QUEUE}", p_token=token)

    def work(self, message: dict[str, Any]) -> None:
        delivery = {"p_queue": QUEUE, "p_msg_ids": [message["msg_id"]], "p_read_cts": [message["read_ct"]]}
        key = {"p_key": message["key"], "p_owner": str(uuid4()), "p_queue": QUEUE}
        state = self.call("begin_job", **key, p_lease_seconds=60) if message["key"] else "claimed"
        if state == "claimed":
            self.ran.append(message["msg_id"])
            assert self.call("extend", **delivery, p_vt=60) == [message["msg_id"]]
            if self.fails:
                self.call("abandon_job", **key)
                self.call(
                    "settle", **delivery, p_outcomes=["retry"], p_errors=["no"], p_error_types=["Error"]
                )
                return
            assert not message["key"] or self.call("finish_job", **key) is True
        assert state in ("claimed", "done")
        self.call(
            "queue_archive", p_queue_name=QUEUE, p_msg_id=message["msg_id"], p_read_ct=message["read_ct"]
        )


class TestItsCallsAsServiceRole:
    """As PostgREST makes them: 8 s at most, and no UPDATE or DELETE without WHERE."""

    @pytest.mark.parametrize(
        ("layout", "keyed", "deaths"),
        [("1.4.4", True, (3, 5, 6)), ("1.5.1", True, range(1, 9)), ("1.13.0", False, (3, 4, 5))],
        ids=["pgmq 1.4.4", "pgmq 1.5.1", "pgmq 1.13.0, without a key"],
    )
    def test_killed_after_any_of_them_loses_nothing_and_repeats_nothing_that_was_done(
        self, projects: Projects, layout: str, keyed: bool, deaths: Sequence[int]
    ) -> None:
        project = projects.make(layout, migrated=True)
        create(project)
        api = Postgrest(project)
        for dies in deaths:
            (sent,) = send(project, {"idempotency_key": f"k{dies}"} if keyed else {})
            replay = Replay(api, dies=dies)
            with pytest.raises(Killed):
                replay.tick()
            finished = api.calls[-1][0] in ("finish_job", "queue_archive", "read_with_dlq", "release_lease")
            elapse(project)
            again = Replay(api)
            again.tick()
            assert ended(project)[sent] == "done"
            ran = [*replay.ran, *again.ran]
            assert len(ran) == (1 if (finished and replay.ran) or not replay.ran else 2), dies
        assert (waiting(project), dead(project)) == (0, [])
        projects.drop(project)

    def test_failing_in_any_way_ends_as_a_dead_letter_after_all_its_attempts(self, project: Project) -> None:
        api = Postgrest(project)
        for dies in (None, 3, 4, 5):
            (sent,) = send(project, {"idempotency_key": f"k{dies}"})
            ran = 0
            for _ in range(4):
                replay = Replay(api, dies=dies, fails=True)
                try:
                    replay.tick()
                except Killed:
                    pass
                ran += len(replay.ran)
                elapse(project)
            letters = [each for each in dead(project) if each.original_msg_id == sent]
            assert [(each.attempts, each.reason) for each in letters] == [(3, "failed")], dies
            assert ran == (0 if dies == 3 else 3)
        assert (waiting(project), ended(project).keys() & {sent}) == (0, {sent})


class TestGeneration:
    OPTIONS = Options(worker="edge", api_schema="public", edge_functions=("worker",))

    def test_types_are_right_and_lines_few(self, node: Node, tmp_path: Path) -> None:
        made = written(tmp_path, app(), "worker")
        done = node.deno("check", "--no-remote", "redrive-worker/index.ts", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        done = node.deno("lint", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(made["redrive-worker/index.ts"].text.splitlines()) <= 80
        assert max(len(file.text.splitlines()) for file in made.values()) <= 100
        assert not [path for path, file in made.items() if "jsr:" in file.text or "npm:" in file.text]
        assert [path for path, file in made.items() if file.users] == ["redrive-worker/handlers.ts"]

    def test_whatever_was_thrown_becomes_text(self, node: Node, tmp_path: Path) -> None:
        written(tmp_path, app(), "worker")
        (tmp_path / "redrive-worker" / "told.ts").write_text(THROWN % ", ".join(ODD))
        done = node.deno("run", "told.ts", folder=tmp_path / "redrive-worker")
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(told) == len(ODD) + 1, done.stderr
        for (text, short, is_logged), wanted in zip(told, [*ODD.values(), "Error: x"], strict=True):
            assert text.startswith(wanted)
            assert short and is_logged

    def test_a_queue_that_handlers_does_not_know_yet_is_told(
        self, node: Node, folder: Path, tmp_path: Path, variables: dict[str, str], api: Postgrest
    ) -> None:
        more = app()

        async def work(payload: dict[str, Any]) -> None: ...

        more.job("new_one")(work)
        written(tmp_path, more, "worker")
        (tmp_path / "redrive-worker" / "handlers.ts").write_text(HANDLERS)
        done = node.deno("check", "--no-remote", "redrive-worker/index.ts", folder=tmp_path)
        assert "new_one" in done.stderr
        with served(node, tmp_path / "redrive-worker", variables) as function:
            assert function.tick("new_one", SECRET) == (501, "handlers.ts has none for queue new_one\n")

    def test_a_handler_nobody_wrote_fails_and_says_so(
        self, node: Node, tmp_path: Path, variables: dict[str, str], api: Postgrest, project: Project
    ) -> None:
        send(project, {}, "brief")
        written(tmp_path, app(), "worker")
        with served(node, tmp_path / "redrive-worker", variables) as function:
            assert function.tick("brief", SECRET) == counts(failed=2)
        assert dead(project, "brief")[0].error == "Error: brief: not implemented"

    def test_its_time_is_shorter_than_the_interval(self) -> None:
        for interval, budget in ((1, 1), (2, 1), (5, 4), (10, 8), (59, 48), (60, 48), (3540, 50)):
            options = Options(
                worker="edge", api_schema="public", edge_functions=("worker",), interval=interval
            )
            text = files(app(), options)["redrive-worker/declared.ts"].text
            assert f"BUDGET_SECONDS = {budget};" in text, interval

    def test_an_app_without_a_job_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="this app has no job"):
            files(Redrive(), self.OPTIONS)
