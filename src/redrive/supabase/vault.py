"""Vault: the names of the secrets that a project's jobs ask for; never a value."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.app import Redrive
from redrive.supabase import cron
from redrive.supabase.plan import Options

ALERTS = "alerts_webhook"

_URL = "the URL that pg_net calls, {of}; localhost would be the database's own container"
_KEY = "a secret key of the project (sb_secret_...), or its service_role key"
_ABOUT = {
    cron.TICK_URL: _URL.format(of="where `redrive serve` answers, such as https://jobs.example.com"),
    cron.PROJECT_URL: _URL.format(of="https://REF.supabase.co"),
    cron.SERVICE_ROLE_KEY: _KEY,
    cron.TICK_SECRET: "a random secret; `redrive serve` reads the same from REDRIVE_TICK_SECRET",
    cron.FASTPIX_URL: _URL.format(of="https://REF.supabase.co/functions/v1"),
    cron.FASTPIX_KEY: _KEY,
    ALERTS: "where alerts are told, such as a Slack webhook",
}


@dataclass(frozen=True, slots=True)
class VaultName:
    """A name, what has to stand there, and whose jobs fail without it: none where it may be left out."""

    name: str
    about: str
    jobs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.about}{'' if self.jobs else ' (may be left out)'}"


def names(app: Redrive, options: Options) -> tuple[VaultName, ...]:
    """What this app's jobs ask Vault for, in the order in which it is first asked."""
    asking: dict[str, list[str]] = {}
    urls: set[str] = set()
    for job in cron.jobs(app, options):
        if job.asks is not None:
            urls.add(job.asks[0])
            for name in job.asks:
                asking.setdefault(name, []).append(job.name)
    needed = [VaultName(name, about(name, url=name in urls), tuple(of)) for name, of in asking.items()]
    return (*needed, VaultName(ALERTS, about(ALERTS)))


def about(name: str, *, url: bool = False) -> str:
    """What stands under a name."""
    return _ABOUT.get(name) or (_ABOUT[cron.PROJECT_URL] if url else "the key that is sent to the URL")
