-- _check_sender: refuse whoever may neither send (part send) nor operate: what schedules send goes into any queue.
-- Called by functions that act with the owner's rights: the caller is who logged in, or was chosen with set role.
create function redrive._check_sender(p_schedule text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_role text := coalesce(nullif(current_setting('role', true), 'none'), session_user);
begin
    if not has_function_privilege(v_role, 'redrive.send(text, jsonb, text, numeric, jsonb, boolean, timestamptz)', 'execute')
       and not has_function_privilege(v_role, 'redrive.run_schedule(text)', 'execute') then
        raise exception 'schedule % sends, and role % may not: permission denied for function send', p_schedule, v_role using errcode = '42501';
    end if;
end
$$;
revoke all on function redrive._check_sender(text) from public;
