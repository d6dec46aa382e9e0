-- drop_queue: the queue, its archive, its dead letters and all that redrive knows of them. False when there was none.
-- part: operate
create function redrive.drop_queue(p_queue text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '10s'
as $$
declare
    v_name text;
    v_known boolean := exists (select from redrive.queue q where q.queue = p_queue);
begin
    if not v_known then
        perform redrive._no_queue(p_queue);
    end if;
    foreach v_name in array array[p_queue, p_queue || '_dlq'] loop
        if to_regclass(format('pgmq.%I', 'q_' || v_name)) is not null then
            perform pgmq.drop_queue(queue_name => v_name);
        end if;
    end loop;
    perform redrive._forget_queue(p_queue);
    return v_known;
end
$$;
revoke all on function redrive.drop_queue(text) from public;
