-- declare_queue: what a worker's start says: this is the policy in code. Returns the fields that an override hides.
-- part: work
create function redrive.declare_queue(p_queue text, p_policy jsonb)
returns table (field text, declared jsonb, override jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform redrive._check_policy(p_policy);
    if to_regclass(format('pgmq.%I', 'q_' || p_queue)) is null
       or not exists (select from redrive.queue q where q.queue = p_queue) then
        perform redrive._no_queue(p_queue);
    end if;
    update redrive.queue q set declared = p_policy where q.queue = p_queue and q.declared <> p_policy;
    perform redrive._apply_policy(p_queue);
    return query
        select o.key, p_policy -> o.key, o.value
          from redrive.queue q, jsonb_each(q.override) o
         where q.queue = p_queue and p_policy ? o.key and p_policy -> o.key <> o.value;
end
$$;
revoke all on function redrive.declare_queue(text, jsonb) from public;
