"""Recipe: a queue worked after the articles' recipe, found by what it made, and taken over by redrive.

Known are functions by their signature and by what their body does beside its comments, tables by their
columns, pg_cron's jobs by their names. Ours carry the comment that `functions` gives them and are none of the
recipe's, also where the signature is the same. A function of such a signature that does nothing of the kind
is somebody else's and stays.

Without --replace-recipe the migration stops where it finds any of it, and names all it found. With it, and in
its one transaction: nobody works by the recipe meanwhile, its keys, messages and leases pass to redrive
(`takeover`), its jobs and functions go, its tables are kept under another name.
"""

from __future__ import annotations

from redrive.app import Redrive
from redrive.store.script import block, literal
from redrive.supabase import recognition, takeover
from redrive.supabase.plan import Check, Options, Section

# What it is for a function to be the recipe's: its signature, and what its text does.
_FUNCTIONS = {
    "public.read_with_dlq(text,integer,integer,integer)": r"pgmq[.]read",
    "public.queue_archive(text,bigint)": r"pgmq[.](archive|delete)",
    "public.claim_job(text)": r"into\s+(\w+[.])?processed_jobs\M",
    "public.claim_worker_lease(text,integer)": r"(into|update)\s+(\w+[.])?worker_leases\M",
    "public.check_queue_health()": r"pgmq[.]metrics\s*[(]",
    "app.backoff(bigint,integer)": r"pgmq[.]set_vt",
}
# The app has one of its own only where it declares it; else the recipe's goes on sending to its queue.
_ENQUEUE = "enqueue_email"
_JOBS = ("drain-email-jobs", "queue-health-check", "purge-email-jobs-archive", "drain_webhook_jobs")


def opening(app: Redrive, options: Options) -> Section:
    """What comes before anything of the app is made: the check, or what makes the recipe's workers wait."""
    if options.replace_recipe:
        return Section(
            "The articles' recipe: whoever works by it waits until this is over",
            block(_filled(takeover.LOCKS, app, options)),
        )
    return Section(
        "The articles' recipe: it is not there, or this goes no further",
        block(_filled(_REFUSE, app, options)),
        checks=_checks(app, options),
    )


def replacement(app: Redrive, options: Options) -> Section | None:
    """What takes over from the recipe, once the queues are redrive's; None where nobody asked for it."""
    if not options.replace_recipe:
        return None
    steps = (
        ("what claim_job had taken is done, for it and for the workers of those queues", takeover.KEYS),
        ("messages it was at work on: how they ended is not known", takeover.MESSAGES),
        ("leases that are held", takeover.LEASES),
        ("its jobs of pg_cron", takeover.JOBS),
        ("its functions", takeover.FUNCTIONS),
        ("its tables, kept under another name", takeover.TABLES),
    )
    return Section(
        "The articles' recipe: redrive takes its place",
        "\n".join(f"-- The recipe: {what}.\n{block(_filled(code, app, options))}" for what, code in steps),
        checks=_checks(app, options),
    )


def _checks(app: Redrive, options: Options) -> tuple[Check, ...]:
    return (
        Check(
            "functions or tables of the articles' recipe are there: redrive supabase init --replace-recipe",
            _filled(
                "not exists (select from ({functions}) f) and not exists (select from ({tables}) t)",
                app,
                options,
            ),
        ),
        Check(
            "jobs of the articles' recipe are in pg_cron: redrive supabase init --replace-recipe",
            _filled(
                "not exists (select from cron.job c where c.jobname = any ({jobs}) and c.active "
                "and c.database = current_database())",
                app,
                options,
            ),
        ),
    )


def _filled(code: str, app: Redrive, options: Options) -> str:
    functions = dict(_FUNCTIONS)
    if _ENQUEUE in app.rpcs:
        functions[f"public.{_ENQUEUE}(text)"] = r"pgmq[.]send"
    rows = ",".join(f"\n{' ' * 17}({literal(each)}, {literal(does)})" for each, does in functions.items())
    names = {
        "{tables}": recognition.FOUND_TABLES,
        "{functions}": recognition.FOUND_FUNCTIONS,
        "{others}": recognition.OTHER_FUNCTIONS,
        "{of_recipe}": f"values{rows}",
        "{jobs}": _array(_JOBS),
        "{queues}": _array(options.keys_of),
        "{api_schema}": "null::text" if options.api_schema is None else literal(options.api_schema),
    }
    for name, value in names.items():
        code = code.replace(name, value)
    return code


def _array(names: tuple[str, ...]) -> str:
    return f"array[{', '.join(map(literal, names))}]::text[]"


_REFUSE = """
declare
    v_there text[];
    v_jobs  text[];
begin
    select array_agg(r.what) into v_there
      from (select 'function ' || f.signature as what from ({functions}) f
            union all
            select 'table ' || t.name from ({tables}) t) r;
    if to_regclass('cron.job') is not null then
        execute $q$
            select array_agg(format('cron job %s', c.jobname) order by c.jobname) from cron.job c
             where c.jobname = any ($1) and c.database = current_database()
               and (c.active or c.username = current_user) $q$
           into v_jobs using {jobs};
    end if;
    if v_there is not null or v_jobs is not null then
        raise exception using errcode = 'RD002', message = format(
            'the articles'' recipe is at work in this database: %s; delete this file and run '
            '`redrive supabase init --replace-recipe`: its migration takes their place, and takes over '
            'their keys, leases and messages', array_to_string(v_there || v_jobs, ', '));
    end if;
end
"""
