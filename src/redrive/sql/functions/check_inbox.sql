-- check_inbox: whether webhooks for these queues can be recorded here, by this role: a receiver asks at its start and for its
-- readiness. Raises the first reason why not: RD001 for a queue, RD002 for a database that takes no writes, or a queue without
-- headers. Reads one row a queue, and writes nothing.
-- part: send
create function redrive.check_inbox(p_queues text[]) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
begin
    if current_setting('transaction_read_only')::boolean then
        raise exception 'this is a read replica, or a read-only session: webhooks cannot be recorded; name the primary in the database URL'
            using errcode = 'RD002';
    end if;
    foreach v_queue in array coalesce(p_queues, '{}') loop
        perform redrive._check_inbox(redrive._policy_of(v_queue));
    end loop;
end
$$;
revoke all on function redrive.check_inbox(text[]) from public;
