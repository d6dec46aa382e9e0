-- create_queue: the queue, its dead-letter queue and its policy row; idempotent under any number of callers at once.
-- p_policy is what code declares. An existing pgmq queue of this name must be adopted, not created.
-- part: operate
create function redrive.create_queue(p_queue text, p_policy jsonb default '{}') returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
    v_known boolean;
begin
    perform redrive._check_queue_name(p_queue);
    perform redrive._check_policy(p_policy);
    -- pgmq's own create races up to 1.5.1, and its dead-letter twin must not be seen half made.
    perform pg_advisory_xact_lock(hashtextextended('redrive.create_queue', 0));
    v_known := exists (select from redrive.queue q where q.queue = p_queue);
    if to_regclass(format('pgmq.%I', 'q_' || p_queue)) is null then
        perform redrive._forget_queue(p_queue);
        v_known := false;
        perform pgmq.create(p_queue);
    elsif not v_known then
        perform redrive._no_queue(p_queue);
    end if;
    if to_regclass(format('pgmq.%I', 'q_' || p_queue || '_dlq')) is null then
        perform pgmq.create(p_queue || '_dlq');
    end if;
    if not v_known then
        insert into redrive.queue (queue, declared) values (p_queue, p_policy);
    else
        update redrive.queue q set declared = q.declared || p_policy where q.queue = p_queue and not q.declared @> p_policy;
    end if;
    perform redrive._prepare_tables(name, not (select q.adopted from redrive.queue q where q.queue = p_queue))
       from unnest(array[p_queue, p_queue || '_dlq']) name;
    perform redrive._apply_policy(p_queue);
end
$$;
revoke all on function redrive.create_queue(text, jsonb) from public;
