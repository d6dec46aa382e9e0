-- resume_queue: hand out again and wake the workers. False when it was not paused.
-- part: operate
create function redrive.resume_queue(p_queue text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_was boolean := (redrive.queue_policy(p_queue) ->> 'paused')::boolean;
begin
    perform redrive.set_policy(p_queue, '{"paused": false}');
    perform pg_notify('redrive', p_queue);
    return v_was;
end
$$;
revoke all on function redrive.resume_queue(text) from public;
