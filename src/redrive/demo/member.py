"""``redrive worker`` as a process of the story: it drains when its standard input ends, so with the story."""

from __future__ import annotations

import os
import runpy
import signal
import threading


def _end_with_the_story() -> None:
    # Not through sys.stdin, whose lock a thread must not hold when the interpreter ends.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_story, daemon=True).start()
    runpy.run_module("redrive.cli", run_name="__main__", alter_sys=True)
