-- free_key: forget a key, done or running, so that it may run again. False when nothing was known of it.
-- part: operate
create function redrive.free_key(p_queue text, p_key text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_known boolean;
begin
    delete from redrive.key k where k.queue = p_queue and k.key = p_key;
    v_known := found;
    delete from redrive.sent_key s where s.queue = p_queue and s.key = p_key;
    return v_known or found;
end
$$;
revoke all on function redrive.free_key(text, text) from public;
