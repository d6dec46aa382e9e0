-- _mark_inbox: this queue has webhook events, and large ones, from now on. Looked at before it is written: the row is locked once.
create function redrive._mark_inbox(q redrive.queue, p_large boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not q.inbox or (p_large and not q.large) then
        update redrive.queue r set inbox = true, large = r.large or p_large
         where r.queue = q.queue and (not r.inbox or p_large and not r.large);
    end if;
end
$$;
revoke all on function redrive._mark_inbox(redrive.queue, boolean) from public;
