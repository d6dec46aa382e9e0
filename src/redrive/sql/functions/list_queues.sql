-- list_queues: every queue there is, redrive's and pgmq's own; kind tells them apart (created, adopted, foreign, missing).
-- part: operate, read
create function redrive.list_queues()
returns table (queue text, kind text, paused boolean, created_at timestamptz, policy jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select q.queue,
           case when to_regclass(format('pgmq.%I', 'q_' || q.queue)) is null then 'missing' when q.adopted then 'adopted' else 'created' end,
           q.paused, q.created_at, redrive.queue_policy(q.queue)
      from redrive.queue q
    union all
    select m.queue_name::text, 'foreign', false, m.created_at, null
      from pgmq.meta m
     where not exists (select from redrive.queue q where m.queue_name in (q.queue, q.queue || '_dlq'))
     order by 1
$$;
revoke all on function redrive.list_queues() from public;
