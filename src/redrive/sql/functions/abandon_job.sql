-- abandon_job: the work of a key begun by p_owner failed: the key is free at once. False when it is no longer this owner's.
-- part: work
create function redrive.abandon_job(p_key text, p_owner text, p_queue text default '') returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from redrive.key k where k.queue = p_queue and k.key = p_key and k.state = 'running' and k.owner = p_owner;
    return found;
end
$$;
revoke all on function redrive.abandon_job(text, text, text) from public;
