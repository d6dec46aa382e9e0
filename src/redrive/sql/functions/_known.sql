-- _known: the policy row of a queue; for a pgmq queue that redrive has not adopted, one made of the defaults and its layout,
-- so that the article's functions work on it. Raises RD001 where there is no such queue.
create function redrive._known(p_queue text) returns redrive.queue
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
    v_table regclass := to_regclass(format('pgmq.%I', 'q_' || lower(p_queue)));
begin
    select * into q from redrive.queue where queue = p_queue;
    if v_table is null or (q.queue is null and not exists (select from pgmq.meta m where m.queue_name = p_queue)) then
        perform redrive._no_queue(p_queue);
    elsif q.queue is null then
        q := jsonb_populate_record(null::redrive.queue, jsonb_build_object(
            'queue', lower(p_queue), 'adopted', true, 'has_headers', redrive._has_column(v_table, 'headers'),
            'has_last_read_at', redrive._has_column(v_table, 'last_read_at'), 'max_attempts', 5, 'visibility_timeout', 60,
            'backoff_base', 30, 'backoff_factor', 2, 'backoff_cap', 3600, 'backoff_jitter', 0.2, 'key_retention', 2592000,
            'archive', true, 'notify', false, 'paused', false, 'single_flight', false, 'inbox', false, 'large', false));
    end if;
    return q;
end
$$;
revoke all on function redrive._known(text) from public;
