-- Schedules: what is sent at which times. Ticks are computed by whoever declares them, from this database's time; one function
-- fires them: the tick's row, the message and the next tick are one transaction.

-- queue null: work of redrive's own, done by the process that gets the tick. payload null (not JSON's null): the message says
-- schedule and tick.
-- next_at null: nobody has computed it since the schedule was declared, changed or resumed; nothing before base_at is made up.
-- revision: a scheduler that has read another cron text or interval fires nothing. unfinished: messages sent and perhaps not
-- ended, where overlap asks. seen_at: when a process that declares it last looked; upheld_at: when one that declares it just
-- as it stands last said so.
create table redrive.schedule (
    name         text primary key,
    queue        text,
    payload      jsonb,
    cron         text,
    every_sec    numeric,
    tz           text not null,
    missed       text not null check (missed in ('skip', 'one', 'all')),
    overlap      text not null check (overlap in ('allow', 'skip', 'queue')),
    paused       boolean not null default false,
    revision     integer not null default 1,
    declared_at  timestamptz not null,
    base_at      timestamptz not null,
    next_at      timestamptz,
    seen_at      timestamptz,
    upheld_at    timestamptz not null,
    last_tick    timestamptz,
    last_msg_id  bigint,
    last_outcome text,
    unfinished   bigint[] not null default '{}',
    check ((cron is null) <> (every_sec is null))
);

-- One row a tick that was fired, or let go: the key is what makes it fire once, however many schedulers there are.
create table redrive.schedule_tick (
    name    text not null,
    tick    timestamptz not null,
    msg_id  bigint,
    at      timestamptz not null,
    outcome text not null check (outcome in ('sent', 'skipped', 'waiting', 'missed')),
    primary key (name, tick)
);
create index schedule_tick_at on redrive.schedule_tick (at);
create index schedule_tick_waiting on redrive.schedule_tick (name, tick) where outcome = 'waiting';
