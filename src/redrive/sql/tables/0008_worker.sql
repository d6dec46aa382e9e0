-- What a worker process says of itself every ten seconds: how many jobs run, how many may, and which messages it holds
-- (a thousand a queue at most). Read by who asks why a message does not run; nothing is decided by it.
alter table redrive.worker
    add column running     integer not null default 0,
    add column concurrency integer,
    add column held        bigint[],
    add column held_at     timestamptz;
-- Of who comes by now and then, as read_with_dlq in a cron job does: the seconds between its last two visits.
alter table redrive.worker add column every_sec double precision;
