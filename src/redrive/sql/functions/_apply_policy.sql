-- _apply_policy: write the effective policy, and what pgmq's layout offers, into the columns that claim and settle read.
create function redrive._apply_policy(p_queue text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    p jsonb := redrive.queue_policy(p_queue);
    v_table oid := to_regclass(format('pgmq.%I', 'q_' || p_queue));
begin
    update redrive.queue q
       set max_attempts = (p ->> 'max_attempts')::numeric::integer,
           visibility_timeout = (p ->> 'visibility_timeout')::numeric,
           timeout = (p ->> 'timeout')::numeric,
           backoff_base = (p -> 'backoff' ->> 'base')::numeric,
           backoff_factor = (p -> 'backoff' ->> 'factor')::numeric,
           backoff_cap = (p -> 'backoff' ->> 'cap')::numeric,
           backoff_jitter = (p -> 'backoff' ->> 'jitter')::numeric,
           concurrency = (p ->> 'concurrency')::numeric::integer,
           single_flight = (p ->> 'single_flight')::boolean,
           key_field = nullif(p ->> 'key_field', ''),
           key_retention = (p ->> 'key_retention')::numeric,
           archive = (p ->> 'archive')::boolean,
           archive_retention = (p ->> 'archive_retention')::numeric,
           archive_max_rows = (p ->> 'archive_max_rows')::numeric::bigint,
           archive_max_bytes = (p ->> 'archive_max_bytes')::numeric::bigint,
           notify = (p ->> 'notify')::boolean,
           paused = (p ->> 'paused')::boolean,
           paused_at = case when (p ->> 'paused')::boolean then coalesce(q.paused_at, redrive.clock()) end,
           has_headers = redrive._has_column(v_table, 'headers'),
           has_last_read_at = redrive._has_column(v_table, 'last_read_at')
     where q.queue = p_queue;
end
$$;
revoke all on function redrive._apply_policy(text) from public;
