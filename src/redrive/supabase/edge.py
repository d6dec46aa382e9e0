"""Edge: a project's Edge Functions over the wrappers: a worker of the app's queues, a receiver of webhooks.

`index.ts` of both is the same for every app; what the app declares stands beside it in `declared.ts`. They
need nothing but Deno, the variables that Supabase gives a function, and those named below.

    worker     REDRIVE_TICK_SECRET, where cron sends one: its callers are that, and who has a secret key
    receiver   each inbox's signing secrets: <SOURCE>_WEBHOOK_SECRET, or what ``Secret(env=...)`` names
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, cast

from redrive.app import Redrive
from redrive.errors import ConfigError
from redrive.inbox.inbox import Inbox
from redrive.inbox.places import Place
from redrive.inbox.providers import Provider
from redrive.inbox.schemes import GENERIC, Entries, Family, Layout, Pairs, Plain, Scheme
from redrive.inbox.secrets import Secret
from redrive.policy import QueuePolicy
from redrive.supabase.plan import EdgeFunction, Options

_FOLDER = Path(__file__).parent / "deno"
# Seconds. A function is ended after 150 on the free plan; pg_net has given up waiting after 60.
_LONGEST = 140
_LONGEST_BUDGET = 50
# A function has 2 s of processor time and 256 MB: what waits for others may be more at once.
_LANES = 4
# Bytes. Of 10 MB, the database took up to 5.7 s on a busy machine, of the 8 it may take.
_MOST = 5_000_000


@dataclass(frozen=True, slots=True)
class EdgeFile:
    """`users`: the user writes it further, so that it is made once and never again."""

    text: str
    users: bool = False


def files(app: Redrive, options: Options) -> dict[str, EdgeFile]:
    """The files by their paths below ``supabase/functions``. Raises `ConfigError`."""
    made: dict[str, EdgeFile] = {}
    for name in options.edge_functions:
        if options.api_schema is None:
            raise ConfigError(
                f"the Edge Function {name} calls redrive through PostgREST; name a schema for its functions, "
                "such as --api-schema public"
            )
        for file, text in _MAKERS[name](app, options, options.api_schema).items():
            made[f"redrive-{name}/{file}"] = EdgeFile(text, users=file == "handlers.ts")
    return made


def _worker(app: Redrive, options: Options, schema: str) -> dict[str, str]:
    jobs = {queue: job.policy for queue, job in sorted(app.jobs.items())}
    if not jobs:
        raise ConfigError("the Edge Function worker would have nothing to work: this app has no job")
    budget = _budget(options.interval)
    rows = [f"  {_name(queue)}: {{ {_declared(policy, budget)} }},\n" for queue, policy in jobs.items()]
    handlers = [
        f"  {_name(queue)}(_payload, _job) {{\n"
        f"    throw new Error({json.dumps(f'{queue}: not implemented')});\n"
        "  },\n"
        for queue in jobs
    ]
    names = ("supabase.ts", "delivery.ts", "thrown.ts")
    return {
        "index.ts": _text("worker.ts"),
        **{name: _text(name) for name in names},
        "declared.ts": _text(
            "queues.ts", schema=json.dumps(schema), budget=str(budget), queues="".join(rows)
        ),
        "handlers.ts": _text("handlers.ts", handlers="".join(handlers)),
    }


def _declared(policy: QueuePolicy, budget: int) -> str:
    timeout = min(3600.0 if policy.timeout is None else policy.timeout, float(_LONGEST - budget))
    values = {
        "vt": ceil(60 if policy.visibility_timeout is None else policy.visibility_timeout),
        "attempts": 5 if policy.max_attempts is None else policy.max_attempts,
        "timeout": f"{timeout:g}",
        "lanes": min(policy.concurrency or _LANES, _LANES),
    }
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def _budget(interval: int) -> int:
    """Seconds of the time between two ticks after which none is begun any more."""
    return max(1, min(interval - max(1, interval // 5), _LONGEST_BUDGET))


def _name(queue: str) -> str:
    return queue if queue.isidentifier() else json.dumps(queue)


def _text(name: str, **values: str) -> str:
    text = (_FOLDER / name).read_text()
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def _receiver(app: Redrive, options: Options, schema: str) -> dict[str, str]:
    inboxes = {source: _inbox(inbox) for source, inbox in sorted(app.inboxes.items())}
    if not inboxes:
        raise ConfigError("the Edge Function receiver would have nothing to receive: this app has no inbox")
    _check_variables(app)
    names = ("supabase.ts", "bytes.ts", "document.ts", "identity.ts", "packing.ts", "signature.ts")
    return {
        "index.ts": _text("receiver.ts"),
        **{name: _text(name) for name in names},
        "declared.ts": _text("inboxes.ts", schema=json.dumps(schema), inboxes=_written(inboxes)),
    }


def _written(inboxes: Mapping[str, Mapping[str, Any]]) -> str:
    """As TypeScript, a line a field."""
    lines = [
        line
        for source, fields in inboxes.items()
        for line in (
            f"  [{json.dumps(source)}, {{",
            *(f"    {name}: {json.dumps(value)}," for name, value in fields.items()),
            "  }],",
        )
    ]
    return "\n".join(("[", *lines, "]"))


def _check_variables(app: Redrive) -> None:
    """No two inboxes have one variable, unless the app itself names it for both."""
    owners: dict[str, str] = {}
    for source, inbox in sorted(app.inboxes.items()):
        if not any(str(each["variable"]).startswith(_variable(source)) for each in _secrets(inbox)):
            continue
        if (other := owners.setdefault(_variable(source), source)) != source:
            raise ConfigError(
                f"inboxes {other} and {source}: the secrets of both would stand in {_variable(source)}; name "
                'a variable for one, such as secret=Secret(env="...")'
            )


def _variable(source: str) -> str:
    return f"{source.upper().replace('-', '_')}_WEBHOOK_SECRET"


def _inbox(inbox: Inbox) -> dict[str, Any]:
    scheme, provider = inbox.provider.rules, inbox.provider
    if scheme is None or scheme.signed is None:
        raise ConfigError(
            f"inbox {inbox.source}: {provider.name} signs the URL it posts to, which an Edge Function does "
            "not know; its receiver checks an HMAC of the body: receive these webhooks with redrive serve"
        )
    found = {
        "queue": inbox.queue,
        "limit": min(inbox.limit, _MOST),
        "secrets": _secrets(inbox),
        "families": [_family(each) for each in scheme.families],
        "layout": _layout(scheme.layout),
        "signed": scheme.signed,
        "algorithm": f"SHA-{scheme.algorithm.removeprefix('sha')}",
        "encoding": scheme.encoding,
        "key": scheme.key,
        "tolerance": scheme.tolerance,
        "bodyTime": scheme.body_time if scheme.tolerance is not None else None,
        "id": _ids(provider, scheme),
        "type": [_place(each) for each in provider.type],
        "resource": [_place(each) for each in provider.resource],
        "derived": provider.derived,
        "bodyHash": provider.body_hash,
        "greets": provider.name if provider.greets else None,
    }
    return {
        **{name: value for name, value in found.items() if value is not None},
        "volatile": list(provider.volatile) or None,
    }


def _family(family: Family) -> dict[str, str]:
    headers = {"signature": family.signature, "id": family.id, "timestamp": family.timestamp}
    return {name: header.name for name, header in headers.items() if header is not None}


def _layout(layout: Layout) -> dict[str, str]:
    match layout:
        case Plain(prefix):
            return {"prefix": prefix}
        case Pairs(separator, time, version):
            return {"separator": separator, "time": f"{time}=", "prefix": f"{version}="}
        case Entries():
            return {"separator": " ", "prefix": "v1,"}


def _ids(provider: Provider, scheme: Scheme) -> list[object]:
    """As `Provider.identify` looks: a signed id before all that is not, a header's last."""
    places = [_place(each) for each in provider.id]
    if not any(family.id for family in scheme.families):
        return places
    return ["{id}", *places] if scheme.signs_id and provider.name != GENERIC else [*places, "{id}"]


def _place(place: Place) -> object:
    if isinstance(place, str):
        return place
    return {"parts": list(place.parts), "extra": list(place.extra), "hashed": place.hashed}


def _secrets(inbox: Inbox) -> list[dict[str, object]]:
    """The variables that hold them, also those that the app has as text or asks a function for."""
    given: object = inbox.secret
    items: list[object] = list(cast("list[object]", given)) if isinstance(given, (list, tuple)) else [given]
    variable = _variable(inbox.source)
    found: list[dict[str, object]] = []
    for number, item in enumerate(items, 1):
        text = item.value if isinstance(item, Secret) else item
        if isinstance(text, str) and text.startswith("whpk_"):
            raise ConfigError(
                f"inbox {inbox.source}: its secret is an ed25519 public key, for v1a signatures; the Edge "
                "Function receiver checks HMACs alone: receive these webhooks with redrive serve"
            )
        named = item.env if isinstance(item, Secret) and item.env else None
        one: dict[str, object] = {"variable": named or (variable if number == 1 else f"{variable}_{number}")}
        if isinstance(item, Secret) and item.until is not None:
            one["until"] = int(item.until.timestamp() * 1000)
        found.append(one)
    return found


_MAKERS: Mapping[EdgeFunction, Callable[[Redrive, Options, str], dict[str, str]]] = {
    "worker": _worker,
    "receiver": _receiver,
}
