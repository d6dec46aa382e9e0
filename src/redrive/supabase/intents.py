"""Intents: for each rpc of an app the function that its clients call, instead of a queue.

Guarantees  a function takes what the job's payload type takes, of its parameters' types, and nothing else:
            what it sends, the job reads. What SQL cannot check is refused here, by a `ConfigError`.
            The caller's id comes from the request's token, never from a parameter.
            An error names the parameter and the rule, never a value.
Not given   a difference between null and a parameter left out, where the field is required and may be null:
            the message then says null. Integers beyond bigint, floats beyond double precision and text with
            NUL characters do not reach a function: Postgres refuses them itself, with an error of class 22.

What PostgREST answers: 400 for a value (ours is PT400, Postgres' own are of class 22), 401 without a user
(PT401), 403 for another role (42501), 413 for a message beyond the app's `max_payload` (PT413), 503 where the
queue is missing or cannot hold the message, or its key is held for 3 s by another transaction (PT503).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from redrive.app import Redrive
from redrive.app.intents import Rpc
from redrive.errors import ConfigError
from redrive.supabase import functions, keys
from redrive.supabase.fields import Field, Model, read
from redrive.supabase.functions import ApiFunction, check_schema, identifier
from redrive.supabase.kinds import literal
from redrive.supabase.plan import Section
from redrive.supabase.unfit import Unfit

_MOST_PARAMETERS = 100
# jsonb_build_object takes 100 arguments.
_MEMBERS = 40
_REQUESTER = "v_requester"
# As OpenID Connect has it: ASCII, and here what can be seen.
_USER = "^[!-~]([ -~]*[!-~])?$"
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def section(app: Redrive, schema: str = "public") -> Section | None:
    """The rpcs of `app` as functions of `schema`; None where it has none. Raises `ConfigError`."""
    check_schema(schema)
    if not app.rpcs:
        return None
    return functions.section("functions of the app", [function(each, schema) for each in app.rpcs.values()])


def function(rpc: Rpc, schema: str = "public") -> ApiFunction:
    """Raises `ConfigError` for what SQL cannot check."""
    try:
        model = read(rpc.model, decimals=rpc.job.decimals)
    except Unfit as error:
        raise ConfigError(f"{rpc}: {error}") from None
    parameters = [each for each in model.fields if each.name != rpc.requester]
    if len(parameters) > _MOST_PARAMETERS:
        raise ConfigError(
            f"{rpc}: {len(parameters)} parameters, and Postgres takes {_MOST_PARAMETERS}; put some of them "
            "into one field of dict[str, Any]"
        )
    body = "\n".join([*_declared(rpc, model), "begin", *_body(rpc, model, parameters), "end"])
    tag = next(tag for tag in (f"$rpc{n or ''}$" for n in count()) if tag not in body)
    taken = ",".join(f"\n    {_declaration(each)}" for each in parameters)
    text = (
        f"create function {identifier(schema)}.{rpc.name}({taken})\nreturns bigint\n"
        "language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s'\n"
        f"as {tag}\n{body}\n{tag};"
    )
    arguments = ", ".join(each.kind.sql for each in parameters)
    return ApiFunction(schema, rpc.name, arguments, text, rpc.role, _about(rpc, parameters))


def _declaration(field: Field) -> str:
    return f"{field.identifier} {field.kind.sql} default {field.default or 'null'}"


def _about(rpc: Rpc, parameters: Sequence[Field]) -> str:
    """What PostgREST's description of the API shows."""
    asked = [f"{each.parameter}: {each.kind.what}{_may(each)}" for each in parameters]
    who = "the caller's job" if rpc.requester else "a job"
    return "\n".join([f"Puts {who} into queue {rpc.job.queue} and answers its id.", "", *asked]).strip()


def _may(field: Field) -> str:
    if field.default is not None:
        return " or null; may be left out" if field.nullable else "; may be left out"
    return " or null" if field.nullable else ""


def _declared(rpc: Rpc, model: Model) -> Iterator[str]:
    yield "declare"
    if rpc.requester:
        yield "    v_claims jsonb := nullif(current_setting('request.jwt.claims', true), '')::jsonb;"
        yield "    v_sub text := coalesce("
        yield "        nullif(current_setting('request.jwt.claim.sub', true), ''),"
        yield "        case jsonb_typeof(v_claims -> 'sub') when 'string' then v_claims ->> 'sub' end);"
        yield f"    {_REQUESTER} {model.field(rpc.requester).kind.sql};"
    if rpc.key:
        yield "    v_key text;"
    yield "    v_wrong text[];"
    yield "    v_message jsonb;"


def _body(rpc: Rpc, model: Model, parameters: Sequence[Field]) -> Iterator[str]:
    if rpc.requester:
        yield from _requester(rpc, model.field(rpc.requester))
    yield from _checks(parameters)
    if rpc.key:
        yield f"    v_key := {keys.expression(rpc, model, _REQUESTER)};"
    yield from _message(rpc, model)
    yield f"    if octet_length(v_message::text) > {rpc.max_payload} then"
    yield from _raised(
        "PT413",
        f"the message is larger than {rpc.max_payload:,} bytes",
        hint="store the bulk elsewhere and send a reference",
    )
    yield "    end if;"
    given = [
        literal(rpc.job.queue),
        "v_message",
        *(["p_key => v_key", "p_unique => true"] if rpc.key else []),
    ]
    yield f"    return redrive.send({', '.join(given)});"
    refused = f"queue {rpc.job.queue} cannot take the message; nothing was sent"
    yield "exception"
    yield "    when sqlstate 'RD001' or sqlstate 'RD002' then"
    yield "        raise exception using errcode = 'PT503', detail = sqlerrm,"
    yield f"            message = {literal(refused)};"
    yield "    when lock_not_available then"
    busy = f"queue {rpc.job.queue} or the key is held by a transaction that has not ended; nothing was sent"
    yield from _raised("PT503", busy, hint="call again")


def _requester(rpc: Rpc, field: Field) -> Iterator[str]:
    hint = "send the access token of a signed-in user"
    if field.kind.sql == "uuid":
        condition, what = f"v_sub !~ {literal(_UUID)}", "no UUID"
    else:
        condition, what = f"v_sub !~ {literal(_USER)} or length(v_sub) > {keys.LONGEST_USER}", "no user's id"
    yield "    if v_sub is null then"
    yield from _raised("PT401", f"{rpc.name} needs a user, and the request has none", hint=hint)
    yield f"    elsif {condition} then"
    yield from _raised("PT401", f"{rpc.name} needs a user, and the token's sub is {what}", hint=hint)
    yield "    end if;"
    yield f"    {_REQUESTER} := v_sub{'::uuid' if field.kind.sql == 'uuid' else ''};"
    for rule in field.kind.rules:
        yield f"    if {rule.broken(_REQUESTER)} then"
        yield from _raised("PT401", f"{rpc.name} needs a user whose id {rule.must}")
        yield "    end if;"


def _raised(code: str, message: str, *, hint: str | None = None) -> Iterator[str]:
    more = f",\n            hint = {literal(hint)}" if hint else ""
    yield f"        raise exception using errcode = '{code}', message = {literal(message)}{more};"


def _checks(parameters: Sequence[Field]) -> Iterator[str]:
    cases = [case for each in parameters for case in _cases(each)]
    if not cases:
        return
    yield "    v_wrong := case"
    for condition, parameter, sentence in cases:
        yield f"        when {condition}"
        yield f"            then array[{literal(parameter)}, {literal(sentence)}]"
    yield "    end;"
    yield "    if v_wrong is not null then"
    yield "        raise exception using errcode = 'PT400', message = v_wrong[2],"
    yield "            detail = format('parameter %s', v_wrong[1]);"
    yield "    end if;"


def _cases(field: Field) -> Iterator[tuple[str, str, str]]:
    if not field.nullable:
        absent = "is missing" if field.default is None else "must not be null"
        yield (
            f"{field.identifier} is null",
            field.parameter,
            f"{field.parameter} {absent}: give {field.kind.what}",
        )
    for rule in field.kind.rules:
        yield rule.broken(field.identifier), field.parameter, rule.says(field.parameter)


def _message(rpc: Rpc, model: Model) -> Iterator[str]:
    members = [
        (each.written, each.kind.json(_REQUESTER if each.name == rpc.requester else each.identifier))
        for each in model.fields
    ]
    if (place := _key_place(rpc, model)) is not None:
        members.append((place, "v_key"))
    written = [f"        {literal(name)}, {value}" for name, value in members]
    objects = [",\n".join(written[n : n + _MEMBERS]) for n in range(0, len(written), _MEMBERS)] or [""]
    built = " || ".join(f"jsonb_build_object(\n{each})" for each in objects)
    yield f"    v_message := {built};"


def _key_place(rpc: Rpc, model: Model) -> str | None:
    """Where the key stands in the message too: workers without headers (pgmq 1.4.4) look for it there."""
    place = rpc.job.policy.key_field
    place = "idempotency_key" if place is None else place
    taken = {each.written for each in model.fields} | {each.name for each in model.fields}
    return None if not rpc.key or not place or model.closed or place in taken else place
