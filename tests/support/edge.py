"""Edge Functions as a project runs them: written into a folder, served by Deno on a port of this machine.

A function may read its variables and call over the network, and nothing else; what it needs, it has.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

from redrive import Redrive
from redrive.supabase.edge import EdgeFile, files
from redrive.supabase.plan import EdgeFunction, Options
from tests.support.node import Node

_NUMBERS = count(1)
MAY = ("--allow-env", "--allow-net", "--no-remote", "--no-npm", "--no-lock", "--no-config")
# A test's own entry: a request says what time it is, and which variables are set.
DRIVER = """
const serve = Deno.serve;
let now = 0;
Date.now = () => now * 1000;
Object.defineProperty(Deno, "serve", {
  value: (handler: (request: Request) => Promise<Response>) =>
    serve((request) => {
      const told = JSON.parse(request.headers.get("x-test") ?? "{}");
      now = told.now ?? 0;
      for (const [name, value] of Object.entries(told.set ?? {})) Deno.env.set(name, String(value));
      return handler(request);
    }),
});
await import("./index.ts");
"""


def written(folder: Path, app: Redrive, *names: EdgeFunction, **options: Any) -> dict[str, EdgeFile]:
    """The functions of `app`, below `folder` as below ``supabase/functions``."""
    made = files(app, Options(**{"worker": "edge", "api_schema": "api", "edge_functions": names, **options}))
    for path, file in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(file.text)
    return made


@dataclass(slots=True)
class Function:
    """One that is served; `log` is what it has written since `forget`."""

    port: int
    process: subprocess.Popen[bytes]
    output: Path
    seen: int = 0

    @property
    def log(self) -> str:
        return self.output.read_text()[self.seen :]

    def forget(self) -> None:
        self.seen += len(self.log)

    def post(
        self,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str | list[str]] | None = None,
        *,
        method: str = "POST",
        within: float = 30,
    ) -> tuple[int, str]:
        """Status and text; headers as bytes on the line, a list as so many lines."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=within)
        try:
            connection.putrequest(method, path)
            for name, value in (headers or {}).items():
                for each in value if isinstance(value, list) else [value]:
                    connection.putheader(name, each.encode())
            connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def tick(self, queue: str, key: str, within: float = 30) -> tuple[int, Any]:
        """What the worker answers to cron's call: JSON where it is that."""
        body = json.dumps({"queue": queue}).encode()
        status, text = self.post("/redrive-worker", body, {"apikey": key}, within=within)
        return status, json.loads(text) if status == 200 else text

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def served(
    node: Node, folder: Path, variables: Mapping[str, str], *, entry: str = "index.ts"
) -> Generator[Function]:
    output = folder / f"log-{next(_NUMBERS)}"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [node.deno_binary, "run", *MAY, entry],
            cwd=folder,
            env={**node.environment, **variables, "DENO_SERVE_ADDRESS": "tcp:127.0.0.1:0"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    function = Function(0, process, output)
    try:
        function.port = _port_of(function)
        yield function
    finally:
        function.kill()


def _port_of(function: Function) -> int:
    """Where it listens, which it says first."""
    until = time.monotonic() + 30
    while time.monotonic() < until and function.process.poll() is None:
        if found := re.search(r"Listening on http://127\.0\.0\.1:(\d+)/", function.log):
            return int(found.group(1))
        time.sleep(0.02)
    raise RuntimeError(f"the function does not listen:\n{function.log}")
