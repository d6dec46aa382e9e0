"""``redrive inbox verify``: would this saved request be let in, and if not, which check refuses it?"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import typer

from redrive.cli.inbox_requests import Lines, body_from, headers_from
from redrive.cli.inbox_target import ProviderArgument, SecretEnvOption, Target
from redrive.cli.options import AppOption, JsonOption
from redrive.cli.output import answer, answer_json, facts
from redrive.errors import InvalidArgument, SignatureError
from redrive.inbox.signatures import Verified, Verifier

Verdict = Literal["passed", "failed", "not reached", "not checked"]

# In the order in which they are checked: who fails one has passed those before.
_STEPS = {
    "no_header": "headers there",
    "malformed": "well-formed",
    "mismatch": "signed with the secret",
    "stale": "fresh",
}
_MARKS = {"passed": "✓", "failed": "✗", "not reached": "·", "not checked": "·"}


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: `steps` by name; `reason`, `problem` and `hint` when it is refused."""

    steps: Mapping[str, Verdict]
    verified: Verified | None = None
    reason: str | None = None
    problem: str | None = None
    hint: str | None = None


def verify(
    name: ProviderArgument,
    headers: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="The request's headers: 'Name: value' lines, or JSON.", show_default=False
        ),
    ],
    body: Annotated[
        str,
        typer.Option(metavar="FILE", help="The request's body, byte for byte.", show_default=False),
    ],
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The public URL it was posted to; twilio signs it.", show_default=False
        ),
    ] = None,
    secret_env: SecretEnvOption = None,
    now: Annotated[
        float | None,
        typer.Option(metavar="UNIX", help="The time of arrival. Default: now.", show_default=False),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How old it may be. Default: the scheme's.", show_default=False),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="As app.inbox(config=...): for generic.", show_default=False),
    ] = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the signature of a saved request, step by step. Exit 1 when it would be refused.

    The secret is that of --secret-env; else the app's, where --app (or the settings) names one with an inbox
    called NAME; else that in NAME_WEBHOOK_SECRET, such as STRIPE_WEBHOOK_SECRET. Neither it nor the right
    digest is ever shown.
    """
    target = Target.of(name, app=app, secret_env=secret_env, config=_object(config), tolerance=tolerance)
    lines, content = headers_from(headers), body_from(body)
    at = time.time() if now is None else now
    report = check(target, lines, content, url=url or target.url, now=at)
    if as_json:
        answer_json(_as_json(target, content, report))
    else:
        _print(target, content, report)
    if report.verified is None:
        raise typer.Exit(1)


def check(target: Target, headers: Lines, body: bytes, *, url: str | None, now: float) -> Report:
    """Verify a request as the receiver would. Raises `ConfigError` for a secret or config that cannot be."""
    verifier = target.verifier()
    untimed: dict[str, Verdict] = {} if verifier.scheme.tolerance is not None else {"fresh": "not checked"}
    try:
        verified = verifier.verify(headers, body, url, now)
    except SignatureError as error:
        steps = _until(error.reason) | untimed
        hint = _hint(verifier, headers, body, url, now) if error.reason == "mismatch" else None
        return Report(steps, None, error.reason, str(error), hint)
    return Report(_until(None) | untimed, verified)


def _until(reason: str | None) -> dict[str, Verdict]:
    """Each step's verdict when the check called `reason` refused; None when none did."""
    verdicts: dict[str, Verdict] = {}
    found: Verdict = "passed"
    for each, step in _STEPS.items():
        verdicts[step] = "failed" if each == reason else found
        if each == reason:
            found = "not reached"
    return verdicts


def _hint(verifier: Verifier, headers: Lines, body: bytes, url: str | None, now: float) -> str | None:
    """What the body had been when it was signed, where that can be told."""
    for said, other in (
        ("without the line end at its end", body.removesuffix(b"\n").removesuffix(b"\r")),
        ("with a line end at its end", body + b"\n"),
        ("with \\n for each \\r\\n", body.replace(b"\r\n", b"\n")),
        ("with \\r\\n for each \\n", body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")),
        *(("as JSON written in another way", each) for each in _rewritten(body)),
    ):
        if other == body:
            continue
        try:
            verifier.verify(headers, other, url, now)
        except SignatureError as error:
            if error.reason != "stale":
                continue
        return (
            f"the secret is right, and the body was changed: the signature holds for it {said}; "
            "keep the bytes as they came"
        )
    return None


def _rewritten(body: bytes) -> list[bytes]:
    """What most JSON libraries make of a document: without spaces, or with one after each comma and colon."""
    try:
        document = json.loads(body)
        return [
            json.dumps(document, separators=separators, ensure_ascii=ascii_only).encode()
            for separators in ((",", ":"), (", ", ": "))
            for ascii_only in (True, False)
        ]
    except (ValueError, RecursionError):
        return []


def _as_json(target: Target, body: bytes, report: Report) -> dict[str, Any]:
    verified = report.verified
    return {
        "valid": verified is not None,
        "scheme": target.provider.name,
        "steps": dict(report.steps),
        "reason": report.reason,
        "problem": report.problem,
        "hint": report.hint,
        "secret": None if verified is None else target.secret_names[verified.secret],
        "timestamp": None if verified is None else verified.timestamp,
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }


def _print(target: Target, body: bytes, report: Report) -> None:
    verified = report.verified
    facts([("scheme", target.provider.name), ("body", f"{len(body):,} bytes")])
    for step, verdict in report.steps.items():
        more = f": {report.problem}" if verdict == "failed" else "" if verdict == "passed" else f": {verdict}"
        if step == _STEPS["mismatch"] and verified is not None:
            more = f": {target.secret_names[verified.secret]}"
        answer(f"{_MARKS[verdict]} {step}{more}")
    if report.hint is not None:
        answer(report.hint)
    answer("it would be let in" if verified is not None else "it would be refused, with 401")


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"--config is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f"--config is {text}; it must be a JSON object")
    return cast("dict[str, Any]", value)
