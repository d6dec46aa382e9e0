"""Cron: the jobs of pg_cron that do for a project what a worker's loops do elsewhere.

    redrive drain QUEUE       calls whoever works it, with what Vault has; none where a worker is resident
    redrive schedule NAME     fires the schedule's ticks
    redrive health            checks health, and tells Vault's alerts_webhook
    redrive retention         deletes what is over

Workers may do all of it beside them: each tick is fired once, health is checked by one at a time. What
pg_cron cannot say (another time zone, every 90 seconds) it looks for each minute: `redrive.cron_tick` fires
what is due, and nothing else. No value of a secret is in a command, whose text anybody can read who may see
cron.job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from redrive.app import Redrive
from redrive.store.script import block, literal
from redrive.supabase.plan import Check, Options, Section
from redrive.watch.schedule import Schedule

# Where `redrive serve` answers: the project's own URL knows no /tick.
TICK_URL = "redrive_url"
PROJECT_URL = "project_url"
SERVICE_ROLE_KEY = "service_role_key"
TICK_SECRET = "redrive_tick_secret"
# The articles' names for queues of FastPix's webhooks.
FASTPIX_URL = "fastpix_functions_url"
FASTPIX_KEY = "fastpix_service_role_key"

_MINUTELY = "* * * * *"
_EDGE_PATH = "/functions/v1/redrive-worker"
# Of a tick's time, shorter than what lies between two of them; pg_net makes its calls in batches, and the
# slowest answer of one holds up the next, alerts among them.
_SHARE, _LEAST_BUDGET, _MOST_BUDGET = 0.8, 1, 30
_ANSWERS_WITHIN = 5
# An Edge Function works on one batch, of which each job may take its time.
_EDGE_TIMEOUT = 60
_UTC = {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Zulu", "UCT", "Universal", "Greenwich", "Etc/UCT", "Etc/Zulu"}
_FIELD = re.compile(r"(?:(?:\*|[0-9]+-[0-9]+)(?:/[0-9]+)?|[0-9]+)")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# By the field's place.
_NUMBERS = {
    3: {name: number for number, name in enumerate(_MONTHS, 1)},
    4: {name: number for number, name in enumerate(_WEEKDAYS)},
}


@dataclass(frozen=True, slots=True)
class CronJob:
    """One job: `schedules` by preference, as `redrive.put_cron_job` takes them; `commands` one, or one each.

    `asks`: the names in Vault of the URL and the key of a call. `why`: why it looks each minute, if so.
    """

    name: str
    schedules: tuple[str, ...]
    commands: tuple[str, ...]
    asks: tuple[str, str] | None = None
    why: str = ""

    @property
    def arguments(self) -> str:
        """As the two functions of redrive take them."""
        schedules = ", ".join(map(literal, self.schedules))
        commands = ",\n        ".join(map(literal, self.commands))
        return f"{literal(self.name)}, array[{schedules}], array[\n        {commands}]"


def section(app: Redrive, options: Options) -> Section:
    """The jobs, each made or changed only where it is not as it should be, and the extensions they need."""
    made = jobs(app, options)
    calls = any(job.asks for job in made)
    notes = "".join(
        f"-- Job {job.name} runs each minute, and fires what is due: {job.why}\n" for job in made if job.why
    )
    puts = "\n".join(f"    perform redrive.put_cron_job({job.arguments});" for job in made)
    sql = f"{_extensions(calls=calls)}\n{notes}{block(f'{chr(10)}begin{chr(10)}{puts}{chr(10)}end{chr(10)}')}"
    return Section(
        "Jobs of pg_cron",
        sql,
        tuple(f"cron job {job.name}" for job in made),
        (*_extension_checks(calls=calls), *map(_check, made)),
    )


def jobs(app: Redrive, options: Options) -> tuple[CronJob, ...]:
    """What pg_cron runs for this app."""
    drains = (
        [] if options.worker == "resident" else [_drain(app, queue, options) for queue in sorted(app.jobs)]
    )
    return (
        *drains,
        *(_schedule(each) for _, each in sorted(app.schedules.items())),
        CronJob("redrive health", (_MINUTELY,), ("select redrive.check_queue_health()",)),
        CronJob("redrive retention", (_MINUTELY,), ("select redrive.run_retention()",)),
    )


def secrets_of(app: Redrive, queue: str, options: Options) -> tuple[str, str]:
    """Vault's names for the URL and the key of a queue's calls."""
    if options.worker == "edge":
        fastpix = any(
            each.queue == queue and each.provider.name == "fastpix" for each in app.inboxes.values()
        )
        url, key = (FASTPIX_URL, FASTPIX_KEY) if fastpix else (PROJECT_URL, SERVICE_ROLE_KEY)
    else:
        url, key = TICK_URL, TICK_SECRET
    return options.url_secret or url, options.key_secret or key


def _drain(app: Redrive, queue: str, options: Options) -> CronJob:
    url, key = secrets_of(app, queue, options)

    def call(every: int) -> str:
        budget = int(max(_LEAST_BUDGET, min(_MOST_BUDGET, every * _SHARE)))
        edge = options.worker == "edge"
        path = _EDGE_PATH if edge else f"/tick/{queue}?budget={budget}"
        timeout = _EDGE_TIMEOUT if edge else budget + _ANSWERS_WITHIN
        return (
            f"select redrive.post_tick(p_queue => {literal(queue)}, p_url_secret => {literal(url)}, "
            f"p_path => {literal(path)}, p_key_secret => {literal(key)}, p_timeout => {timeout})"
        )

    every = options.interval
    schedules = _seconds(every) if every < 60 else (f"*/{every // 60} * * * *" if every > 60 else _MINUTELY,)
    commands = tuple(dict.fromkeys((call(every), call(max(every, 60)))))
    return CronJob(f"redrive drain {queue}", schedules, commands, (url, key))


def _schedule(schedule: Schedule) -> CronJob:
    command = f"select redrive.cron_tick({literal(schedule.name)})"
    schedules, why = _when(schedule)
    return CronJob(f"redrive schedule {schedule.name}", schedules, (command,), why=why)


def _when(schedule: Schedule) -> tuple[tuple[str, ...], str]:
    """When pg_cron has to look, by preference; why each minute, where the schedule says something else."""
    times = schedule.times
    if times.every is not None and times.every < 60:
        return _seconds(int(times.every)), ""
    if schedule.overlap == "queue":
        return (_MINUTELY,), "a tick may wait for the end of the one before"
    if times.every is not None:
        exact = _interval(times.every)
        return (
            exact or _MINUTELY,
        ), "" if exact else f"every {float(times.every):g} s is nothing that pg_cron can say"
    assert times.cron is not None
    if times.cron == _MINUTELY:
        return (_MINUTELY,), ""
    if times.tz not in _UTC:
        return (_MINUTELY,), f"pg_cron does not know {times.tz}"
    exact = text_of(times.cron)
    if exact is None:
        return (_MINUTELY,), f"{times.cron} is nothing that pg_cron can say"
    # Where pg_cron refuses the first (the last day of a month, before 1.5) or has another time zone.
    return (exact, _MINUTELY), ""


def _seconds(seconds: int) -> tuple[str, ...]:
    return "1 second" if seconds == 1 else f"{seconds} seconds", _MINUTELY


def _interval(seconds: object) -> str | None:
    """An interval from a minute on as a cron text, where there is one that says just that since 1970."""
    minutes = float(str(seconds)) / 60
    if minutes == 1:
        return _MINUTELY
    if minutes < 60 and 60 % minutes == 0 and minutes.is_integer():
        return f"*/{minutes:.0f} * * * *"
    hours = minutes / 60
    if not hours.is_integer() or 24 % hours != 0:
        return None
    return "0 0 * * *" if hours == 24 else f"0 {'*' if hours == 1 else f'*/{hours:.0f}'} * * *"


def text_of(cron: str) -> str | None:
    """A cron text as pg_cron reads it; None where it cannot say that."""
    fields = cron.upper().split()
    for place, field in enumerate(fields):
        for name, number in _NUMBERS.get(place, {}).items():
            field = field.replace(name, str(number))
        if place == 2 and field == "L":
            field = "$"
        elif not all(_FIELD.fullmatch(item) for item in field.split(",")):
            return None
        fields[place] = field
    return " ".join(fields)


def _check(job: CronJob) -> Check:
    return Check(
        f"pg_cron's job {job.name} is missing, switched off, somebody else's, or has another schedule or "
        "command",
        f"redrive._has_cron_job({job.arguments})",
    )


@dataclass(frozen=True, slots=True)
class _Extension:
    """What has to be there: `found` is null where it is not, `create` makes it, `instead` does without.

    Each is made in a schema that is named: the file has no search_path.
    """

    name: str
    what: str
    found: str
    create: str
    instead: str

    @property
    def sql(self) -> str:
        return f"""
    if {self.found} is null then
        if not exists (select from pg_catalog.pg_available_extensions where name = '{self.name}') then
            raise exception using errcode = '0A000', message =
                'this database has no {self.what}, and its server no extension {self.name}; '
                'install it, {self.instead}';
        end if;
{self.create}
    end if;
"""


_PG_CRON = _Extension(
    "pg_cron",
    "pg_cron",
    "to_regclass('cron.job')",
    "        create extension if not exists pg_cron with schema pg_catalog;",
    "or do without: redrive migrate and redrive worker need none",
)
_PG_NET = _Extension(
    "pg_net",
    "pg_net",
    "to_regproc('net.http_post')",
    """        if to_regnamespace('extensions') is null then
            create extension if not exists pg_net with schema public;
        else
            create extension if not exists pg_net with schema extensions;
        end if;""",
    "or write this with --worker resident, which makes no calls",
)
_VAULT = _Extension(
    "supabase_vault",
    "Vault",
    "to_regclass('vault.decrypted_secrets')",
    "        create extension if not exists supabase_vault cascade;",
    "or write this with --worker resident, which asks for no secret",
)


def _needed(*, calls: bool) -> list[_Extension]:
    return [_PG_CRON, _PG_NET, _VAULT] if calls else [_PG_CRON]


def _extensions(*, calls: bool) -> str:
    return block("\nbegin\n" + "".join(each.sql for each in _needed(calls=calls)) + "end\n")


def _extension_checks(*, calls: bool) -> Iterator[Check]:
    for each in _needed(calls=calls):
        yield Check(f"{each.what} is not installed", f"{each.found} is not null")
