-- _over: is this value over this limit? Null where there is no value.
create function redrive._over(p_value double precision, p_operator text, p_limit double precision) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case p_operator when '>' then p_value > p_limit when '>=' then p_value >= p_limit
                           when '<' then p_value < p_limit when '<=' then p_value <= p_limit end
$$;
revoke all on function redrive._over(double precision, text, double precision) from public;
