"""Plan: what was asked for, and the sections that a generated migration is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Worker = Literal["tick", "edge", "resident"]
EdgeFunction = Literal["worker", "receiver"]


@dataclass(frozen=True, slots=True)
class Options:
    """What `redrive supabase init` was asked for.

    worker          who works the queues: tick (cron posts to /tick/{queue} of `redrive serve`), edge (cron
                    posts to the generated Edge Function), resident (`redrive worker` runs: no drain jobs)
    interval        seconds between two ticks of a queue, 1 to 59, or 60 times 1 to 59
    api_schema      where PostgREST's clients find the wrappers; None: no wrappers
    edge_functions  which Edge Functions to write
    replace_recipe  drop the articles' objects and take over their keys, leases and messages
    keys_of         queues whose claim asks what the recipe's processed_jobs said
    url_secret      Vault's name for the URL that cron posts to; None: `cron` says which
    key_secret      Vault's name for the key it sends; None: likewise
    """

    worker: Worker = "tick"
    interval: int = 10
    api_schema: str | None = None
    edge_functions: tuple[EdgeFunction, ...] = ()
    replace_recipe: bool = False
    keys_of: tuple[str, ...] = ("email_jobs",)
    url_secret: str | None = None
    key_secret: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """What a database must be like: `sql` is a condition, `problem` what is wrong where it is not true."""

    problem: str
    sql: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a migration: plain SQL that may run again, inside the file's transaction.

    `objects` names what it makes ("queue email_jobs", "cron job redrive health"), one line each in the file's
    head, so that a later file can tell what left the app.
    """

    title: str
    sql: str
    objects: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
