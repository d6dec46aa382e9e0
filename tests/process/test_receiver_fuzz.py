"""Whatever is sent, signed or not: no answer of the receiver is a 5xx, and what is signed is recorded."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import zlib
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks

from redrive import ConfigError, InvalidArgument, Redrive
from redrive.inbox.signing import sign, signed_url
from redrive.web import asgi
from tests.support.databases import Databases
from tests.support.layouts import NEWEST
from tests.support.receiving import lines, post
from tests.support.serving import Serving
from tests.support.webhooks import config_of, secret_of
from tests.support.working import until_blocking

Db = psycopg.Connection[Any]

DOCUMENT = json.loads((Path(__file__).parents[1] / "support" / "receiver_openapi.json").read_text())
PROVIDERS = {
    "github": "github",
    "stripe": "stripe",
    "svix": "svix",
    "slack": "slack",
    "twilio": "twilio",
    "bunny": "bunny-stream",
    "acme": "generic",
}
# Two bodies that tell of one state are one event, and no conflict.
DERIVED = {"bunny"}
# What Stripe changes between deliveries cannot be told from the rest where the body is no JSON.
REPEATED_OTHERWISE = DERIVED | {"stripe"}
LIMIT = 20_000
_turn = itertools.count()


@dataclass
class Attacked:
    """A receiver whose bodies may be small, on a database that all examples share."""

    url: str
    app: Redrive
    db: Db


@pytest.fixture(scope="module")
def attacked(databases: Databases) -> Generator[Attacked]:
    url = databases.migrated(NEWEST)
    app = Redrive(url)
    for source, provider in PROVIDERS.items():
        config = config_of(provider) | ({"event_id": "/id", "type": "/type"} if source == "acme" else {})
        app.inbox(
            source, provider=provider, secret=secret_of(provider), queue="hooks", limit=LIMIT, config=config
        )
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("select redrive.create_queue('hooks')")
        with Serving(asgi(app)) as serving:
            yield Attacked(serving.url, app, db)
        asyncio.run(app.close())
    databases.drop(url)


def signature(source: str, body: bytes, url: str, **more: Any) -> dict[str, str]:
    provider = PROVIDERS[source]
    return sign(provider, secret=secret_of(provider), body=body, url=url, config=config_of(provider), **more)


schema = schemathesis.openapi.from_dict(DOCUMENT)


@schema.parametrize()
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
def test_an_openapi_fuzzer_finds_no_fault(case: schemathesis.Case, attacked: Attacked) -> None:
    prepared = requests.Request(**case.as_transport_kwargs(base_url=attacked.url)).prepare()
    body = prepared.body or b""
    raw = body.encode() if isinstance(body, str) else body
    source = (case.path_parameters or {}).get("source")
    if next(_turn) % 2 and source in PROVIDERS and isinstance(raw, bytes):
        prepared.headers.update(signature(source, raw, str(prepared.url)))
    with requests.Session() as session:
        answer = session.send(prepared)
    case.validate_response(answer, checks=[checks.not_a_server_error, checks.status_code_conformance])


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)
# Fields that say who an event is, filled with anything at all.
NAMED = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("id", "type", "event", "action", "VideoGuid", "Status", "repository"), VALUE),
)
BODY = (
    st.binary(max_size=400)
    | (VALUE | NAMED).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
    | st.binary(max_size=30).map(lambda part: part * 900)
)
HEADER = st.tuples(
    st.sampled_from(["x-github-event", "x-github-delivery", "svix-id", "x-shop", "content-type", "cookie"]),
    st.binary(max_size=60),
)


async def answered(app: Redrive, source: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> Any:
    try:
        return await post(asgi(app), f"/webhooks/{source}", body, headers, url="http://hooks.test")
    finally:
        await app.close()


@given(
    source=st.sampled_from(sorted(PROVIDERS)),
    body=BODY,
    packed=st.sampled_from([None, None, "gzip", "deflate", "br"]),
    id=st.none() | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=300),
    type=st.none() | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1),
    more=st.lists(HEADER, max_size=3),
)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_signed_is_recorded_byte_by_byte(
    source: str,
    body: bytes,
    packed: str | None,
    id: str | None,
    type: str | None,
    more: list[tuple[str, bytes]],
    attacked: Attacked,
) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}.get(packed or "", bytes)
    raw = pack(body)
    where = f"http://hooks.test/webhooks/{source}"
    try:
        headers = lines(signature(source, raw, where, event_id=id, type=type))
    except (ConfigError, InvalidArgument):  # such an id or type cannot stand in a header, or has none
        headers = lines(signature(source, raw, where))
    # What the signature needs stays as it is: a line sent twice is refused.
    taken = {name for name, _ in headers}
    headers += [(n.encode(), value) for n, value in more if n.encode() not in taken]
    if packed is not None:
        headers.append((b"content-encoding", packed.encode()))
    if source == "twilio":
        query = signed_url("twilio", where, raw).partition("?")[2]
        answer = asyncio.run(_twilio(attacked.app, raw, headers, query))
    else:
        answer = asyncio.run(answered(attacked.app, source, raw, headers))
    if len(body) > LIMIT:
        assert answer.status == 413
        return
    assert answer.status in (200, 401), answer
    if answer.status == 401:
        # Only where a header that the scheme looks at was sent twice or is no ASCII.
        assert answer.word in ("malformed", "mismatch") and more
    elif answer.word == "ok" or (answer.word == "duplicate" and source not in REPEATED_OTHERWISE):
        found = attacked.db.execute(
            "select from redrive.webhook_event where source = %s and raw = %s", (source, raw)
        ).fetchall()
        assert found, (source, raw, headers, answer)


async def _twilio(app: Redrive, body: bytes, headers: list[tuple[bytes, bytes]], query: str) -> Any:
    url = f"http://hooks.test?{query}" if query else "http://hooks.test"
    try:
        return await post(asgi(app), "/webhooks/twilio", body, headers, url=url)
    finally:
        await app.close()


@given(
    source=st.text(max_size=40),
    method=st.sampled_from(["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"]),
    headers=st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=200)), max_size=6),
    chunks=st.lists(st.binary(max_size=200), max_size=4),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_that_mean_nothing_are_refused_and_no_fault(
    source: str,
    method: str,
    headers: list[tuple[bytes, bytes]],
    chunks: list[bytes],
    attacked: Attacked,
) -> None:
    for name in (source, "github"):
        answer = asyncio.run(_meaningless(attacked.app, name, method, headers, chunks))
        assert answer.status in (400, 401, 404, 405)


async def _meaningless(
    app: Redrive, source: str, method: str, headers: list[tuple[bytes, bytes]], chunks: list[bytes]
) -> Any:
    try:
        return await post(asgi(app), f"/webhooks/{source}", chunks, headers, method=method, length=False)
    finally:
        await app.close()


def test_no_secret_stands_in_an_answer_a_table_or_the_log(
    attacked: Attacked, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    words: Counter[str] = Counter()
    said: list[str] = []
    with httpx.Client(base_url=attacked.url) as client:
        for source in PROVIDERS:
            url = f"{attacked.url}/webhooks/{source}"
            body = f"a={source}".encode()
            for wrong in ("", "x"):
                headers = signature(source, body, url)
                answer = client.post(f"/webhooks/{source}", content=body + wrong.encode(), headers=headers)
                words[answer.text.strip()] += 1
                said.append(f"{answer.headers} {answer.text}")
    assert words["ok"] == words["mismatch"] == len(PROVIDERS), words
    refused = "select from redrive.webhook_refused where detail like '%does not fit%'"
    until_blocking(lambda: len(attacked.db.execute(refused.encode()).fetchall()) >= len(PROVIDERS))
    tables = attacked.db.execute(
        "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname in ('redrive', 'pgmq')"
    ).fetchall()
    held = [
        str(attacked.db.execute(f"select t.*::text from {name} t".encode()).fetchall()) for (name,) in tables
    ]
    everything = " ".join([*said, *held, caplog.text])
    for provider in PROVIDERS.values():
        assert secret_of(provider).removeprefix("whsec_") not in everything
