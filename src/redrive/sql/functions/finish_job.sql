-- finish_job: the work of a key begun by p_owner is done, with a result to keep. False when the key is no longer this owner's.
-- part: work
create function redrive.finish_job(p_key text, p_owner text, p_result jsonb default null, p_queue text default '') returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
begin
    update redrive.key k
       set state = 'done', lease_until = null, done_at = v_now, expires_at = v_now + redrive._retention(p_queue), result = p_result
     where k.queue = p_queue and k.key = p_key and k.state = 'running' and k.owner = p_owner;
    return found;
end
$$;
revoke all on function redrive.finish_job(text, text, jsonb, text) from public;
