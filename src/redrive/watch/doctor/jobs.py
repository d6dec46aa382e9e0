"""Jobs: redrive's own jobs of pg_cron (named ``redrive ...``), and what they ask Vault for."""

from __future__ import annotations

from redrive.store import vault
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.names import literal
from redrive.watch.doctor.patient import Patient

OWN = "starts_with(jobname, 'redrive ') and database = current_database()"
NO_CRON = "pg_cron is not installed in this database"
NO_VAULT = "Vault is not installed in this database"
# Where nobody says otherwise: ours, the articles' names for a URL, and the alerts' own.
_URLS = ("redrive_url", "project_url", "fastpix_functions_url", "alerts_webhook")
_WRITE = "redrive supabase init"

_JOBS = f"""
select j.jobname as name, j.jobid, j.username, j.active, pg_get_userbyid(n.nspowner) as owner,
       strpos(j.command, case split_part(j.jobname, ' ', 2)
           when 'drain' then format('redrive.post_tick(p_queue => %L', substr(j.jobname, 15))
           when 'schedule' then format('redrive.cron_tick(%L', substr(j.jobname, 18))
           when 'health' then 'redrive.check_queue_health('
           when 'retention' then 'redrive.run_retention('
           else 'redrive.' end) > 0 as fits
  from cron.job j cross join pg_namespace n
 where {OWN} and n.nspname = 'redrive'
 order by 1, 2
"""


@check("redrive's own jobs of pg_cron are its owner's, switched on, and do what their names say")
async def own_jobs(patient: Patient) -> list[Finding]:
    await demand(patient, "cron.job", NO_CRON)
    patient.demand_redrive()
    found: list[Finding] = []
    for row in await patient.rows(_JOBS):
        job = f"pg_cron's job {row.name}"
        if row.username != row.owner:
            problem = (
                f"{job} is run by role {row.username}, and schema redrive is {row.owner}'s: it fails, or "
                f"does again what a job of {row.owner}'s does"
            )
            found.append(
                Finding("warning", row.name, problem, (f"select cron.unschedule({row.jobid});", _WRITE))
            )
        elif not row.active:
            problem = f"{job} is not active: it does not run"
            fix = f"select cron.alter_job({row.jobid}, active => true);"
            found.append(Finding("warning", row.name, problem, (fix,)))
        elif not row.fits:
            problem = f"{job} runs another command than its name says"
            found.append(
                Finding("warning", row.name, problem, (f"select cron.unschedule({row.jobid});", _WRITE))
            )
    return found


@check("no secret that jobs ask for is empty, nor a URL that is the database's own container from pg_net")
async def vault_values(patient: Patient) -> list[Finding]:
    await demand(patient, "vault.decrypted_secrets", NO_VAULT)
    names = set(_URLS)
    if await patient.has("cron.job"):
        names |= {
            row.name
            for row in await patient.rows(
                "select m.found[2] as name from cron.job j "
                "cross join regexp_matches(j.command, %s, 'g') m(found)",
                vault.ASKED,
            )
        }
    statement = vault.states(sorted(names))
    found: list[Finding] = []
    for name, state in statement.load(
        [tuple(row) for row in await patient.rows(statement.sql, *statement.params)]
    ):
        fix = (f"redrive supabase secrets set {name}",)
        if state == "empty":
            found.append(Finding("error", name, f"Vault's secret {name} is empty", fix))
        elif state == "localhost":
            problem = (
                f"Vault's secret {name} is a URL with localhost: from pg_net that is the container of the "
                "database itself; what runs on its host is host.docker.internal"
            )
            found.append(Finding("error", name, problem, fix))
    return found


async def demand(patient: Patient, relation: str, why: str) -> None:
    """Raises `NotChecked` with `why` where there is no such relation."""
    if not await patient.has(relation):
        raise NotChecked(why)


def missing(job: str, secret: str, *, own: bool) -> Finding:
    """A name that a job asks for and Vault does not have."""
    if own:
        problem = f"pg_cron's job {job} asks Vault for {secret!r}, which is not there: each of its runs fails"
        return Finding("error", job, problem, (f"redrive supabase secrets set {secret}",))
    problem = (
        f"pg_cron's job {job} asks Vault for {secret!r}, which is not there: it goes on with NULL, and says "
        "nothing"
    )
    return Finding("error", job, problem, (f"select vault.create_secret('SECRET', {literal(secret)});",))


CHECKS: tuple[Check, ...] = (own_jobs, vault_values)
