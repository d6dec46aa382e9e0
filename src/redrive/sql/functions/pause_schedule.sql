-- pause_schedule: no more ticks; what was sent runs. Ticks that pass meanwhile are not made up. False when it was paused already.
-- part: operate
create function redrive.pause_schedule(p_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s'
as $$
begin
    update redrive.schedule s set paused = true where s.name = p_name and not s.paused;
    if found then
        return true;
    elsif not exists (select from redrive.schedule s where s.name = p_name) then
        perform redrive._no_schedule(p_name);
    end if;
    return false;
end
$$;
revoke all on function redrive.pause_schedule(text) from public;
