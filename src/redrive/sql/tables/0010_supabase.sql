-- Calls that pg_cron's jobs made by pg_net, of each queue the newest hundred: pg_cron calls a run a success as soon as the call is
-- handed over, and pg_net keeps the answer by the request's id alone. timeout_sec: for how long pg_net waits for the answer.
create table redrive.http_call (
    request_id  bigint primary key,
    queue       text not null,
    at          timestamptz not null,
    timeout_sec numeric not null
);
create index http_call_of_queue on redrive.http_call (queue, at);
