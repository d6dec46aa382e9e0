"""``redrive supabase``: a Supabase project's migrations, cron jobs, secrets and functions."""

from __future__ import annotations

import typer

from redrive.cli.supabase_init import init
from redrive.cli.supabase_secrets import app as secrets

app = typer.Typer(no_args_is_help=True, help="Supabase: migrations, cron, Vault and functions of a project.")

app.command()(init)
app.add_typer(secrets, name="secrets")
