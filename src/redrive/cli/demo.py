"""``redrive demo``: the whole story on a Postgres of its own, in under a minute."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import typer

from redrive.cli.declaring import declare
from redrive.cli.output import console
from redrive.cli.session import Session
from redrive.settings import DatabaseChoice
from redrive.store import migrations
from redrive.store.database import connect
from redrive.store.embedded import EmbeddedServer


def demo() -> None:
    """See redrive at work: good jobs, poison, a killer, a deploy and a redrive, on a Postgres of its own.

    Takes less than a minute, in a temporary directory; no configured database is touched. Every count that is
    printed is checked: exit 1 when one is wrong.
    """
    folder = Path(tempfile.mkdtemp(prefix="redrive-demo-"))
    place = Path(tempfile.mkdtemp(prefix="redrive-demo-db-"))
    server = EmbeddedServer(place, durable=False)
    try:
        right = _play(server, folder)
    finally:
        server.stop(remove=True)
        for each in (folder, place):
            shutil.rmtree(each, ignore_errors=True)
    if not right:
        raise typer.Exit(1)


def _play(server: EmbeddedServer, folder: Path) -> bool:
    from redrive.demo.app import app
    from redrive.demo.crew import Crew
    from redrive.demo.ledger import Ledger
    from redrive.demo.page import Page
    from redrive.demo.story import Story

    page = Page(console())
    page.act("A Postgres of its own")
    url = server.start()
    page.tell(f"database: embedded {server.description}")
    starts = folder / "starts.ndjson"
    crew = Crew(url, starts, page.overheard)
    with connect(url) as connection:
        migrations.migrate(connection)
        store = Session(url, DatabaseChoice(url, folder, "redrive demo"), server.description)
        try:
            declare(store, app.jobs.values())
            page.tell(f"queues: {', '.join(app.jobs)}")
        finally:
            store.close()
        try:
            right = Story(page, Ledger(connection, starts), crew, url).play()
        finally:
            crew.close()
            asyncio.run(app.close())
    page.tell("")
    page.act(
        f"All {page.checked} counts are right, after {page.seconds:.0f} s"
        if right
        else f"{page.wrong} of {page.checked} counts are wrong"
    )
    return right
