"""Vault: the names of the secrets that a project's jobs ask for; never a value."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.app import Redrive
from redrive.supabase import cron
from redrive.supabase.plan import Options

ALERTS = "alerts_webhook"

_URL = "the URL that pg_net calls: {of}; localhost would be the database's own container"
_ABOUT = {
    cron.TICK_SECRET: "a random secret, which `redrive serve` reads from REDRIVE_TICK_SECRET",
    cron.SERVICE_ROLE_KEY: "a secret key of the project (sb_secret_...), or its service_role key",
    cron.FASTPIX_KEY: "a secret key of the project (sb_secret_...), or its service_role key",
    cron.FASTPIX_URL: _URL.format(of="https://REF.supabase.co/functions/v1"),
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
    needed = [
        VaultName(name, about(name, options, url=name in urls), tuple(of)) for name, of in asking.items()
    ]
    return (*needed, VaultName(ALERTS, _ABOUT[ALERTS]))


def about(name: str, options: Options, *, url: bool) -> str:
    """What a name is for."""
    if name in _ABOUT:
        return _ABOUT[name]
    if url:
        edge = options.worker == "edge"
        return _URL.format(of="https://REF.supabase.co" if edge else "where `redrive serve` answers")
    return "the key that is sent to it"
