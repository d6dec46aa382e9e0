-- _conflicts: is this another body than the one that was recorded under the id? Not where the provider changes these fields.
create function redrive._conflicts(p_earlier redrive.webhook_event, p_raw bytea, p_payload jsonb, p_volatile text[]) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select p_earlier.raw <> p_raw
       and case when coalesce(cardinality(p_volatile), 0) = 0 then true
                -- jsonb could not hold one of them, such as for a \u0000: nobody can tell whether more differs than these fields,
                -- and such a body differs at each delivery. An alarm that always rings tells nothing: it is a repeat.
                when p_earlier.payload is null or p_payload is null then false
                when jsonb_typeof(p_earlier.payload) = 'object' and jsonb_typeof(p_payload) = 'object'
                then p_earlier.payload - p_volatile <> p_payload - p_volatile
                else true end
$$;
revoke all on function redrive._conflicts(redrive.webhook_event, bytea, jsonb, text[]) from public;
