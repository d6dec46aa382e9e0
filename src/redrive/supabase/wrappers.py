"""Wrappers: the articles' functions, under the names and parameters their clients know, in an exposed schema.

Each is SECURITY INVOKER and executable by service_role alone, which may call what stands behind it by its
grants (`redrive.store.grants`). Parameters and defaults are those of schema redrive. None waits longer than
three seconds for a lock, and what is given in bulk is bounded: each ends well within PostgREST's 8 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill

from redrive.supabase.functions import ApiFunction, check_schema, identifier
from redrive.supabase.functions import section as functions_section
from redrive.supabase.plan import Section

ROLE = "service_role"

# Most messages of a call. On two cores, with payloads of a kilobyte: handing out 1,000 takes 0.25 s, settling
# them as failed 0.4 s, as rejected 0.9 s; diverting poison (1,000 a call, whatever is asked for) up to 0.7 s.
MOST = 1000

_READ = (
    "msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb, headers jsonb, "
    "attempt integer, key text"
)
_SETTLE = (
    "p_queue text, p_msg_ids bigint[], p_read_cts integer[], p_outcomes text[], p_delays numeric[] = null, "
    "p_error_types text[] = null, p_errors text[] = null, p_tracebacks text[] = null, "
    "p_durations numeric[] = null, p_worker text = null"
)
_HEALTH = (
    "rule text, subject text, state text, severity text, value double precision, threshold double precision, "
    "summary text, command text, since timestamptz"
)
_EVENT = (
    "p_source text, p_event_id text, p_type text, p_payload jsonb, p_raw bytea, p_headers jsonb, "
    "p_queue text, p_resource text = null, p_volatile text[] = null, p_derived boolean = false, "
    "p_origin text = 'webhook'"
)


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    type: str
    default: str | None

    @classmethod
    def of(cls, text: str) -> _Parameter:
        declared, _, default = text.strip().partition(" = ")
        name, _, type = declared.partition(" ")
        return cls(name, type, default or None)

    @property
    def declared(self) -> str:
        default = "" if self.default is None else f" default {self.default}"
        return f"{self.name} {self.type}{default}"


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """`returns` is a type, ``setof`` one, or the columns of a table.

    `instead` is what goes to redrive's function in a parameter's place; `body` is plpgsql around ``{call}``.
    """

    name: str
    takes: str
    returns: str
    about: str
    instead: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    sql: str | None = None

    def of(self, schema: str) -> ApiFunction:
        parameters = [_Parameter.of(each) for each in self.takes.split(",")]
        declared = _lines([each.declared for each in parameters])
        columns = _lines(self.returns.split(", "))
        returns = f"table (\n{columns})" if ", " in self.returns else self.returns
        text = (
            f"create function {identifier(schema)}.{self.name}(\n{declared})\nreturns {returns}\n"
            f"language {'plpgsql' if self.body else 'sql'} set search_path = pg_catalog, pg_temp "
            "set lock_timeout = '3s'\n"
            f"as $redrive$\n{self._inside(parameters).strip(chr(10))}\n$redrive$;"
        )
        types = ", ".join(each.type for each in parameters)
        return ApiFunction(schema, self.name, types, text, ROLE, self.about)

    def _inside(self, parameters: Sequence[_Parameter]) -> str:
        if self.sql:
            return self.sql
        given = [f"{each.name} => {self.instead.get(each.name, each.name)}" for each in parameters]
        rows = ", " in self.returns or self.returns.startswith("setof ")
        call = f"{'select * from' if rows else 'select'} redrive.{self.name}(\n{_lines(given)})"
        return self.body.replace("{call}", call.replace("\n", "\n        ")) if self.body else call


def _lines(items: Sequence[str]) -> str:
    """The items with commas between, on lines that end between two of them."""
    whole = ", ".join(each.replace(" ", "\0") for each in items)
    return fill(whole, 100, initial_indent="    ", subsequent_indent="    ").replace("\0", " ")


_BOUNDED = f"""
begin
    if cardinality(p_msg_ids) > {MOST} then
        raise exception using errcode = '22023', message = format(
            'a call takes at most {MOST} messages, not %s; make several calls', cardinality(p_msg_ids));
    end if;
    return query {{call}};
end
"""

# What jsonb cannot hold is recorded raw, as redrive's own receiver does: the sender can do nothing about it.
# Numbers like 1e99999 are short to send and long to store. 3 MB of 1e99 take 2.4 s, and as long does counting
# the digits of as many 1e999: what is larger is not tried where anything looks like an exponent.
_RECEIVE = """
declare
    v_payload jsonb := p_payload;
    v_text    text;
    v_fits    boolean := true;
begin
    if p_payload is null then
        begin
            v_text := ltrim(convert_from(p_raw, 'UTF8'), U&'\\FEFF');
            if octet_length(p_raw) > 3000000 then
                v_fits := v_text !~ '[0-9][eE][+-]?[0-9]{2}';
            elsif v_text ~ '[0-9][eE][+-]?[0-9]{3}' then
                select sum(least(e.found[1], '99999999')::bigint) <= 50000000 into v_fits
                  from regexp_matches(v_text, '[0-9][eE][+-]?0*([0-9]{1,8})', 'g') e (found);
            end if;
            if v_fits then
                v_payload := v_text::jsonb;
            end if;
        exception when data_exception or program_limit_exceeded then
            v_payload := null;
        end;
    end if;
    begin
        return query {call};
    exception when data_exception or program_limit_exceeded then
        if p_payload is not null or v_payload is null then
            raise;
        end if;
        v_payload := null;
        return query {call};
    end;
end
"""

_DELIVERY = "select 1 from redrive.settle(p_queue, array[p_msg_id], array[p_read_ct], array['retry'])"

_WRAPPERS = (
    _Wrapper(
        "read_with_dlq",
        "p_queue_name text, p_vt integer = 60, p_qty integer = 5, p_max_read_ct integer = 5",
        _READ,
        f"Hands out messages, {MOST} at most; those over their budget become dead letters instead.",
        # least() passes null over.
        instead={"p_qty": f"case when p_qty > {MOST} then {MOST} else p_qty end"},
    ),
    _Wrapper(
        "queue_archive",
        "p_queue_name text, p_msg_id bigint, p_read_ct integer = null",
        "boolean",
        "This message is done; with p_read_ct only while that delivery owns it.",
    ),
    _Wrapper(
        "claim_job",
        "p_key text, p_queue text = ''",
        "boolean",
        "True for the first caller of a key, null for every other.",
    ),
    _Wrapper(
        "begin_job",
        "p_key text, p_owner text, p_lease_seconds numeric, p_queue text = ''",
        "text",
        "claimed (yours; again: renewed), busy (somebody else's, alive) or done.",
    ),
    _Wrapper(
        "finish_job",
        "p_key text, p_owner text, p_result jsonb = null, p_queue text = ''",
        "boolean",
        "The work of this key is done.",
    ),
    _Wrapper(
        "abandon_job",
        "p_key text, p_owner text, p_queue text = ''",
        "boolean",
        "The work of this key failed: it is free at once.",
    ),
    _Wrapper(
        "claim_worker_lease",
        "p_worker text, p_seconds integer = 55",
        "boolean",
        "True for one caller until the seconds have passed, null for the others.",
    ),
    _Wrapper(
        "acquire_lease", "p_name text, p_seconds numeric", "bigint", "A lease's token, or null: it is taken."
    ),
    _Wrapper(
        "renew_lease",
        "p_name text, p_token bigint, p_seconds numeric",
        "boolean",
        "Keep a lease; false: it is no longer yours.",
    ),
    _Wrapper("release_lease", "p_name text, p_token bigint", "boolean", "Give a lease back."),
    _Wrapper(
        "lease_is_mine", "p_name text, p_token bigint", "boolean", "Whether this token holds the lease."
    ),
    _Wrapper(
        "extend",
        "p_queue text, p_msg_ids bigint[], p_read_cts integer[], p_vt numeric",
        "setof bigint",
        "The heartbeat; answers the ids that these deliveries still own.",
        body=_BOUNDED,
    ),
    _Wrapper(
        "release",
        "p_queue text, p_msg_ids bigint[], p_read_cts integer[], p_due timestamptz[] = null",
        "setof bigint",
        "Give deliveries back without charge.",
        body=_BOUNDED,
    ),
    _Wrapper(
        "settle", _SETTLE, "msg_id bigint, read_ct integer, verdict text", "Report outcomes.", body=_BOUNDED
    ),
    _Wrapper(
        "backoff",
        "p_attempt integer, p_base numeric, p_factor numeric, p_cap numeric, p_jitter numeric",
        "numeric",
        "Seconds before the next attempt.",
    ),
    _Wrapper(
        "backoff",
        "p_msg_id bigint, p_read_ct integer, p_queue text = 'webhook_jobs'",
        "void",
        "This delivery failed: again by its queue's policy, or a dead letter.",
        sql=_DELIVERY,
    ),
    _Wrapper(
        "receive_event",
        _EVENT,
        "id uuid, msg_id bigint, duplicate boolean, conflict boolean",
        "Record a webhook event and send its job; without p_payload it is read from p_raw.",
        instead={"p_payload": "v_payload"},
        body=_RECEIVE,
    ),
    _Wrapper(
        "check_queue_health",
        "p_every numeric = 0",
        _HEALTH,
        "Evaluate the rules of health; answers what began to fire and what is over.",
    ),
)


def functions(schema: str) -> tuple[ApiFunction, ...]:
    """The wrappers for `schema`; raises `ConfigError` where it cannot hold them."""
    check_schema(schema)
    return tuple(each.of(schema) for each in _WRAPPERS)


def section(schema: str) -> Section:
    """The section that makes them. Raises `ConfigError`."""
    return functions_section(
        f"the articles' functions for PostgREST's clients, in schema {schema}", functions(schema)
    )
