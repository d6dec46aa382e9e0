-- Retention: how long what is over is kept. A queue's archive by its policy, everything else by one rule each.

-- Seconds, rows, bytes; null means without end. A queue that pgmq made keeps its archive until somebody says otherwise.
alter table redrive.queue
    add column archive_retention numeric default 2592000,
    add column archive_max_rows bigint,
    add column archive_max_bytes bigint;
update redrive.queue set archive_retention = null where adopted;

-- What somebody set; redrive._keep knows the defaults.
create table redrive.retention_rule (
    what     text primary key,
    keep_sec numeric not null check (keep_sec > 0)
);

-- How far the keys of sent messages were looked through: a row a queue is at, and the way round begins again.
create table redrive.retention_place (
    what  text primary key,
    queue text not null,
    key   text not null
);

create index fetched_at on redrive.fetched (at);
