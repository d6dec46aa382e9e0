-- The tables of schema redrive. Queues themselves are pgmq's: pgmq.q_<queue>, pgmq.a_<queue>, pgmq.q_<queue>_dlq.
-- No column is ever added to a queue table (pgmq 1.5.1 and older break on it); two are added to its archive.
-- Nobody is granted anything here: every way in is a security definer function.

-- One row: which redrive this database is. A worker's transaction is only completed in its own database.
create table redrive.installation (
    one        boolean primary key default true check (one),
    id         uuid not null default gen_random_uuid(),
    created_at timestamptz not null default now()
);
insert into redrive.installation default values;

-- A queue and its policy. `declared` is what code says, `override` what an operator set; the columns below them
-- are the effective policy (override over declared over default), kept by redrive._apply_policy so that
-- claim and settle read one row. Seconds everywhere; null means none.
create table redrive.queue (
    queue              text primary key,
    declared           jsonb not null default '{}',
    override           jsonb not null default '{}',
    adopted            boolean not null default false,
    created_at         timestamptz not null default now(),
    has_headers        boolean not null default true,   -- false on pgmq 1.4.4: a documented subset
    has_last_read_at   boolean not null default true,
    max_attempts       integer not null default 5,
    visibility_timeout numeric not null default 60,
    timeout            numeric default 3600,
    backoff_base       numeric not null default 30,
    backoff_factor     numeric not null default 2,
    backoff_cap        numeric not null default 3600,
    backoff_jitter     numeric not null default 0.2,
    concurrency        integer,
    single_flight      boolean not null default false,
    key_field          text default 'idempotency_key',
    key_retention      numeric not null default 2592000,
    archive            boolean not null default true,
    notify             boolean not null default true,
    paused             boolean not null default false
);

-- The history: one row a failed attempt, written by whoever reports it or by the claim that finds nobody did.
create table redrive.attempt (
    queue      text not null,
    msg_id     bigint not null,
    read_ct    integer not null,
    attempt    integer not null,
    at         timestamptz not null,
    worker     text,
    duration   double precision,
    error_type text,
    error      text,
    traceback  text,
    primary key (queue, msg_id, read_ct)
);
create index attempt_at on redrive.attempt (at);

-- Idempotency keys that are running or done. owner_msg is the message that holds or completed the key;
-- owner names the holder of a key taken by hand (begin_job). Queue '' holds the keys of claim_job.
create table redrive.key (
    queue       text not null,
    key         text not null,
    state       text not null check (state in ('running', 'done')),
    owner_msg   bigint,
    owner       text,
    lease_until timestamptz,
    done_at     timestamptz,
    expires_at  timestamptz,
    result      jsonb,
    primary key (queue, key)
);
create index key_expires_at on redrive.key (expires_at) where expires_at is not null;

-- Keys of messages that were sent and have not ended. A sender may wait here for another open transaction with
-- the same key; a worker never does. A row may outlive its messages (a purge): it is checked before it is believed.
create table redrive.sent_key (
    queue   text not null,
    key     text not null,
    msg_ids bigint[] not null,
    primary key (queue, key)
);

-- Named single-flight rights. The token is the fence: from a sequence, never used twice.
create sequence redrive.lease_token;
create table redrive.lease (
    name        text primary key,
    token       bigint not null,
    holder      text,
    acquired_at timestamptz not null,
    lease_until timestamptz not null
);

-- One row per (queue, worker process): its counters, and whether it is waiting to be woken.
-- Worker '' keeps the sums of those that are gone.
create table redrive.worker (
    queue         text not null,
    worker        text not null,
    started_at    timestamptz not null,
    last_seen     timestamptz not null,
    waiting_until timestamptz,
    claimed       bigint not null default 0,
    done          bigint not null default 0,
    failed        bigint not null default 0,
    dead          bigint not null default 0,
    given_back    bigint not null default 0,
    primary key (queue, worker)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Which role may do which part; migrate grants them again after it replaced functions.
create table redrive.role_grant (
    role text not null,
    part text not null check (part in ('send', 'work', 'operate', 'read')),
    primary key (role, part)
);
