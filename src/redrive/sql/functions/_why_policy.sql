-- _why_policy: what of a queue's policy decides whether a message runs. by: who paused it, an operator or its code.
create function redrive._why_policy(q redrive.queue) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
        'max_attempts', q.max_attempts, 'visibility_timeout', q.visibility_timeout, 'timeout', q.timeout, 'concurrency', q.concurrency,
        'single_flight', q.single_flight, 'archive', q.archive, 'paused', q.paused, 'paused_at', case when q.paused then q.paused_at end,
        'paused_by', case when q.paused then case when q.override ? 'paused' then 'operator' else 'code' end end,
        'adopted', exists (select from redrive.queue r where r.queue = q.queue),
        'headers', q.has_headers, 'dead_letters', to_regclass(format('pgmq.%I', 'q_' || q.queue || '_dlq')) is not null)
$$;
revoke all on function redrive._why_policy(redrive.queue) from public;
