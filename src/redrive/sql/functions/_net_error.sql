-- _net_error: what was wrong with a call of pg_net; null where it was answered 2xx.
create function redrive._net_error(p_answered boolean, p_status integer, p_timed_out boolean, p_error text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case when not p_answered then 'pg_net did not answer: is its worker running?'
                when p_timed_out then 'timed out'
                when p_status between 200 and 299 then null
                when p_status is not null then 'answered ' || p_status
                else redrive._without_url(coalesce(p_error, 'no answer'), null) end
$$;
revoke all on function redrive._net_error(boolean, integer, boolean, text) from public;
