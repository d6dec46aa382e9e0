-- _policy_of: the policy row of a queue, or RD001 where redrive has none, or pgmq's table is gone.
create function redrive._policy_of(p_queue text) returns redrive.queue
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
begin
    select * into q from redrive.queue r where r.queue = p_queue;
    if not found or to_regclass(format('pgmq.%I', 'q_' || p_queue)) is null then
        perform redrive._no_queue(p_queue);
    end if;
    return q;
end
$$;
revoke all on function redrive._policy_of(text) from public;
