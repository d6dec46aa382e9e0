-- What watches: rules, alerts and who is told of them. Nothing here is asked by a worker's calls.

-- What an operator said of a rule: for a built-in one the fields that differ, for another one all of them. What holds is
-- redrive._rules(): these over the defaults of redrive._default_rules(), which each release may better.
create table redrive.rule (
    name       text primary key,
    fields     jsonb not null,
    changed_at timestamptz not null,
    changed_by text
);

-- A rule as it holds. A reading of `gauge` that is `operator` `threshold` for `for_sec` seconds fires; a firing one is over
-- where it would not be over `clear_at`. remind_sec null: never again. queue_pattern: only these subjects, * for anything.
create type redrive._rule as (
    name text, gauge text, operator text, threshold double precision, clear_at double precision, for_sec numeric, remind_sec numeric,
    severity text, queue_pattern text, enabled boolean, builtin boolean, summary text, command text
);

-- One value that was read. subject null: the gauge could not be read at all; value null: not for this subject. detail: words
-- for the summary, by name.
create type redrive._reading as (gauge text, subject text, value double precision, detail jsonb);

-- One row a rule and subject (a queue, source, schedule, lease, sink or cron job) that is, or was, over its limit.
--   pending -- for_sec over --> firing -- value back, or subject gone --> resolved;  pending -- value back --> (no row)
create table redrive.alert (
    rule        text not null,
    subject     text not null,
    state       text not null check (state in ('pending', 'firing', 'resolved')),
    severity    text not null,
    value       double precision,
    threshold   double precision,
    since       timestamptz not null,
    fired_at    timestamptz,
    seen_at     timestamptz not null,
    resolved_at timestamptz,
    told_at     timestamptz,
    summary     text not null,
    command     text,
    primary key (rule, subject)
);

-- Stops deliveries until its end, never states. Null: of every rule, of every subject.
create table redrive.silence (
    id      bigint generated always as identity primary key,
    rule    text,
    subject text,
    until   timestamptz not null,
    reason  text,
    by      text,
    at      timestamptz not null
);

-- Where alerts are told: names only, their addresses and secrets stay with the processes that deliver.
create table redrive.alert_sink (
    name      text primary key,
    kind      text not null,
    seen_at   timestamptz not null,
    delivered bigint not null default 0,
    failures  bigint not null default 0
);

-- The outbox: a row a sink and event, written by the transaction that changes the state. episode: when the alert fired.
-- Open until delivered_at or gave_up_at. In flight until claimed_until under a token; attempts counts failed tries.
create table redrive.alert_delivery (
    id            bigint generated always as identity primary key,
    sink          text not null,
    rule          text not null,
    subject       text not null,
    event         text not null check (event in ('firing', 'reminder', 'resolved', 'test')),
    episode       timestamptz,
    body          jsonb not null,
    at            timestamptz not null,
    next_at       timestamptz not null,
    attempts      integer not null default 0,
    tried_at      timestamptz,
    claimed_until timestamptz,
    token         bigint,
    delivered_at  timestamptz,
    gave_up_at    timestamptz,
    error         text,
    request_id    bigint
);
create sequence redrive.alert_token;
-- Told once, whoever evaluated.
create unique index alert_delivery_once on redrive.alert_delivery (sink, rule, subject, episode, event) where event in ('firing', 'resolved');
create index alert_delivery_open on redrive.alert_delivery (sink, next_at) where delivered_at is null and gave_up_at is null;
create index alert_delivery_at on redrive.alert_delivery (at);

-- One row: the last evaluation, and what could not be read in it. Whoever evaluates holds its lock.
create table redrive.watch (
    one        boolean primary key default true check (one),
    checked_at timestamptz,
    duration   double precision,
    by         text,
    problems   jsonb not null default '[]'
);
insert into redrive.watch default values;

-- What each queue had sent and finished at each evaluation of the last hour: rates are differences. live: in the queue's
-- table, null where it was not counted to the end.
create table redrive.sample (
    queue  text not null,
    at     timestamptz not null,
    sent   bigint not null,
    done   bigint not null,
    failed bigint not null,
    dead   bigint not null,
    live   bigint,
    primary key (queue, at)
);

-- The same for what each source was refused for, as far as it was signed and wrong.
create table redrive.refused_sample (
    source text collate "C" not null,
    at     timestamptz not null,
    total  bigint not null,
    primary key (source, at)
);
