-- pause_queue: hand nothing out; running jobs finish and sends go on. False when it was paused already.
-- part: operate
create function redrive.pause_queue(p_queue text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_was boolean := (redrive.queue_policy(p_queue) ->> 'paused')::boolean;
begin
    perform redrive.set_policy(p_queue, '{"paused": true}');
    return not v_was;
end
$$;
revoke all on function redrive.pause_queue(text) from public;
