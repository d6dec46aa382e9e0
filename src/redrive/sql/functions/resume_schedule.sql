-- resume_schedule: ticks again, from now on. False when it was not paused.
-- part: operate
create function redrive.resume_schedule(p_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
begin
    update redrive.schedule s set paused = false, base_at = redrive.clock(), next_at = null where s.name = p_name and s.paused;
    if found then
        return true;
    elsif not exists (select from redrive.schedule s where s.name = p_name) then
        perform redrive._no_schedule(p_name);
    end if;
    return false;
end
$$;
revoke all on function redrive.resume_schedule(text) from public;
