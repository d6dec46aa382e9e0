-- policy_fields: a queue's policy field by field: what holds, what code declared and what an operator set, as JSON.
-- declared and override are null where nobody said anything; a field that says null has the JSON null.
-- part: operate, read
create function redrive.policy_fields(p_queue text)
returns table (field text, effective jsonb, declared jsonb, override jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
begin
    select * into q from redrive.queue where queue = p_queue;
    if not found then
        perform redrive._no_queue(p_queue);
    end if;
    return query select p.key, p.value, q.declared -> p.key, q.override -> p.key from jsonb_each(redrive.queue_policy(p_queue)) p order by p.key;
end
$$;
revoke all on function redrive.policy_fields(text) from public;
