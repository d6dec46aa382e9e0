-- next_due: seconds until the next message of the queue may be claimed (0 when one may be now); null when there is none.
-- part: work
create function redrive.next_due(p_queue text) returns numeric
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_vt timestamptz;
begin
    if to_regclass(format('pgmq.%I', 'q_' || p_queue)) is null then
        return null;
    end if;
    execute format('select vt from pgmq.%I order by vt limit 1', 'q_' || p_queue) into v_vt;
    return case when v_vt is not null then greatest(extract(epoch from v_vt - redrive.clock()), 0) end;
end
$$;
revoke all on function redrive.next_due(text) from public;
