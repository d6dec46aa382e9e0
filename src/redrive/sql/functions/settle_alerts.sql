-- settle_alerts: how deliveries went: an error each, null for delivered. A failed one is tried again after 10 s, twice that each time
-- up to 15 minutes, or what the sink asked for in p_retry_after (infinity: given up at once), and given up 24 hours after its first
-- try, with those behind it.
-- Only under the token they were claimed with. Returns how many counted.
-- part: work, operate
create function redrive.settle_alerts(p_ids bigint[], p_tokens bigint[], p_errors text[], p_retry_after numeric[] default null) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if (cardinality(p_ids) = all (array[cardinality(p_tokens), cardinality(p_errors), coalesce(cardinality(p_retry_after), cardinality(p_ids))])) is not true then
        perform redrive._refuse('settle_alerts takes ids, tokens and errors of the same length, and retry_after of that length or null');
    end if;
    return redrive._settle_alerts(p_ids, p_tokens, p_errors, p_retry_after, redrive.clock());
end
$$;
revoke all on function redrive.settle_alerts(bigint[], bigint[], text[], numeric[]) from public;
