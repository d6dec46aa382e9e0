"""An app whose handlers send, and which notes in the journal that it was closed."""

from __future__ import annotations

import os
from typing import Any

from redrive import Redrive


class Noting(Redrive):
    async def close(self) -> None:
        await super().close()
        note("closed")


def note(line: str) -> None:
    with open(os.environ["REDRIVE_TEST_JOURNAL"], "a") as journal:
        journal.write(f"{line} in {os.getpid()}\n")


app = Noting()


@app.job("coroutine")
async def coroutine(payload: dict[str, Any]) -> None:
    await app.send("later", payload, delay=3600)


@app.job("thread")
def thread(payload: dict[str, Any]) -> None:
    app.sync.send("later", payload, delay=3600)


@app.job("later")
async def later(payload: dict[str, Any]) -> None: ...
