-- _check_message: refuse what no queue can hold, and on pgmq 1.4.4 (no headers column) what that queue cannot. Of headers there,
-- those of a trace alone are dropped without a word: the sender did not write them, its tracing did.
create function redrive._check_message(q redrive.queue, p_message jsonb, p_key text, p_headers jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_message is null then
        perform redrive._refuse('message is null; send a JSON value (JSON null is one)');
    end if;
    perform redrive._check_key(p_key);
    perform redrive._check_headers(p_headers);
    if not q.has_headers and p_headers - array['traceparent', 'tracestate'] = '{}' then
        p_headers := null;
    end if;
    if not q.has_headers and (p_headers is not null or p_key is distinct from (p_message ->> q.key_field)) and (p_headers is not null or p_key is not null) then
        raise exception 'queue % was made by a pgmq without headers: headers, and a key outside the payload''s %, need pgmq 1.5 or newer',
            q.queue, coalesce(q.key_field, 'key field') using errcode = 'RD002';
    end if;
end
$$;
revoke all on function redrive._check_message(redrive.queue, jsonb, text, jsonb) from public;
