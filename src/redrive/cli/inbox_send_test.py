"""``redrive inbox send-test``: a request as the provider would send it, signed and posted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote
from uuid import uuid4

import typer

from redrive.cli.inbox_requests import body_from
from redrive.cli.inbox_samples import SAMPLES
from redrive.cli.inbox_target import ProviderArgument, SecretEnvOption, Target
from redrive.cli.options import AppOption, JsonOption
from redrive.cli.output import answer, answer_json, one_line, say
from redrive.cli.redaction import redact
from redrive.errors import InvalidArgument, Unavailable
from redrive.inbox.places import Place
from redrive.inbox.schemes import GENERIC
from redrive.inbox.signing import sign, signed_url

if TYPE_CHECKING:
    import httpx

# More than any provider waits.
_TIMEOUT = 30.0
_SHOWN = 500
_CONFLICT = "conflict\n"


def send_test(
    name: ProviderArgument,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The body, sent byte for byte. Default: a small sample.", show_default=False
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Default: http://127.0.0.1:8000/webhooks/NAME.", show_default=False),
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="The event's type. Default for github: the file's name up to __ or its end.",
            show_default=False,
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The event's id. Default: the file's, else a new one.", show_default=False
        ),
    ] = None,
    secret_env: SecretEnvOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign an event as its provider would, and post it.

    Exit 1 when it is not accepted, or is a conflict (its id is known, with another body: no job was sent), 3
    when nobody answers.

    The secret is that of --secret-env; else the app's, where --app (or the settings) names one with an inbox
    called NAME; else that in NAME_WEBHOOK_SECRET, such as STRIPE_WEBHOOK_SECRET. Of several, the first signs.
    """
    if url is not None and not url.strip():
        raise InvalidArgument("--url is empty; give it a value, or leave it out")
    target = Target.of(name, app=app, secret_env=secret_env)
    body, kind = _event(target, file, type, id)
    where = url or f"http://127.0.0.1:8000/webhooks/{quote(name)}"
    provider = target.provider.name
    headers = sign(
        provider,
        secret=target.secrets[0],
        body=body,
        event_id=id,
        type=kind,
        # What the provider was told, which behind a proxy is not where this request goes.
        url=target.url or where,
        config=target.config,
    )
    response = _post(signed_url(provider, where, body), headers, body)
    _show(target, body, headers, response, redact(where), as_json=as_json)
    if response.is_success and response.text == _CONFLICT:
        say(
            f"its id was received before with another body, so no job was sent; see redrive inbox quarantine "
            f"{target.name}"
        )
    if not response.is_success or response.text == _CONFLICT:
        raise typer.Exit(1)


def _show(
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    response: httpx.Response,
    where: str,
    *,
    as_json: bool,
) -> None:
    """What was sent, and what was said to it."""
    document = _document(body)
    identity = target.provider.identify(headers, document, body)
    greeting = target.provider.handshake(headers, document, target.secrets) is not None
    if as_json:
        facts = {"event_id": identity.event_id, "type": identity.type, "url": where, "handshake": greeting}
        answer_json({**facts, "status": response.status_code, "answer": response.text[:_SHOWN]})
        return
    what = "a handshake" if greeting else f"event {identity.event_id}"
    answer(f"{what} of type {identity.type}, {len(body):,} bytes, posted to {where}")
    said = one_line(response.text, _SHOWN)
    answer(f"{response.status_code} {response.reason_phrase}" + (f": {said}" if said else ""))
    if greeting and response.is_success:
        answer("the sender only asks who is there: it is answered, and nothing is recorded of it")


def _event(target: Target, file: str | None, type: str | None, id: str | None) -> tuple[bytes, str | None]:
    """The body, with the type and id that were asked for, and the type for where that is a header."""
    provider = target.provider
    if file is None:
        sample = SAMPLES[provider.name]
        body, kind = sample.body(uuid4().hex), type or sample.type
        if provider.name == GENERIC:
            kind = kind if provider.type else type
            type, id = kind, id or uuid4().hex
    else:
        body, kind = body_from(file), type
        if kind is None and provider.name == "github":
            kind = github_type(file)
    for option, places, value in (("--type", provider.type, type), ("--id", provider.id, id)):
        if value is not None and not value.strip():
            raise InvalidArgument(f"{option} is empty; give it a value, or leave it out")
        # Where the first place is a header, signing puts it there.
        if value is not None and places and not _is_header(places[0]):
            body = _placed(body, places[0], value, option)
    return body, kind


def github_type(file: str) -> str:
    """``issues__edited.json`` is issues, ``fork_.json`` is fork."""
    stem = PurePath(file).name
    stem = stem.removesuffix(PurePath(stem).suffix) if "__" not in stem else stem.partition("__")[0]
    return stem.removesuffix("_")


def _is_header(place: Place) -> bool:
    return isinstance(place, str) and not place.startswith("/")


def _placed(body: bytes, place: Place, value: str, option: str) -> bytes:
    """The body with `value` at a JSON pointer. Raises `InvalidArgument` where there is no such place."""
    document = _document(body)
    if not isinstance(place, str) or not isinstance(document, dict):
        raise InvalidArgument(
            f"{option} has no place of its own in this event, or the event is no JSON object; change the file"
        )
    *path, last = (step.replace("~1", "/").replace("~0", "~") for step in place[1:].split("/"))
    inner = cast("dict[str, Any]", document)
    for step in path:
        deeper: Any = inner.setdefault(step, {})
        if not isinstance(deeper, dict):
            raise InvalidArgument(
                f"{option} belongs at {place} of the event, where there is no object for it"
            )
        inner = cast("dict[str, Any]", deeper)
    inner[last] = value
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _post(url: str, headers: dict[str, str], body: bytes) -> httpx.Response:
    """Raises `Unavailable` when there is no answer, `InvalidArgument` for what is no URL."""
    # Not for every other command to wait for.
    import httpx

    shown = redact(url)
    try:
        # A proxy of the environment's is for what is elsewhere. A redirect is not followed: no provider does.
        elsewhere = httpx.URL(url).host not in ("127.0.0.1", "localhost", "::1")
        with httpx.Client(timeout=_TIMEOUT, trust_env=elsewhere) as client:
            return client.post(url, headers=headers, content=body)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise InvalidArgument(
            f"--url is {shown!r}: {error}; write it like http://127.0.0.1:8000/webhooks/github"
        ) from None
    except httpx.HTTPError as error:
        raise Unavailable(
            f"{shown} gives no answer: {str(error) or type(error).__name__}; does `redrive serve` run there?"
        ) from None
