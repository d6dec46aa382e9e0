-- _conflicts: is this another body than the one that was recorded under the id? Not where the provider changes these fields.
create function redrive._conflicts(p_earlier redrive.webhook_event, p_raw bytea, p_payload jsonb, p_volatile text[]) returns boolean
language sql immutable set search_path = ''
as $$
    select p_earlier.raw <> p_raw
       and case when jsonb_typeof(p_earlier.payload) = 'object' and jsonb_typeof(p_payload) = 'object' and cardinality(p_volatile) > 0
                then p_earlier.payload - p_volatile <> p_payload - p_volatile
                else true end
$$;
revoke all on function redrive._conflicts(redrive.webhook_event, bytea, jsonb, text[]) from public;
