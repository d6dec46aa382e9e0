-- _check_batch: the policy row of the queue a batch goes to; refuses what is no batch, or what no message of this queue may be.
create function redrive._check_batch(p_queue text, p_messages jsonb, p_keys text[], p_headers jsonb) returns redrive.queue
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue;
begin
    q := redrive._policy_of(p_queue);
    if p_messages is null or jsonb_typeof(p_messages) <> 'array' then
        perform redrive._refuse('messages must be one JSON array');
    elsif p_keys is not null and cardinality(p_keys) <> jsonb_array_length(p_messages) then
        perform redrive._refuse(format('there are %s keys for %s messages; give one each, null for none',
                                       cardinality(p_keys), jsonb_array_length(p_messages)));
    end if;
    if p_headers is not null then
        perform redrive._check_message(q, 'null', null, p_headers);
    end if;
    if p_keys is not null then
        perform redrive._check_message(q, m.value, p_keys[m.n::integer], null)
           from jsonb_array_elements(p_messages) with ordinality m(value, n) where p_keys[m.n::integer] is not null;
    end if;
    return q;
end
$$;
revoke all on function redrive._check_batch(text, jsonb, text[], jsonb) from public;
