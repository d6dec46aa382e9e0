-- backoff: seconds before the next attempt, least(cap, base * factor^(attempt - 1)) less up to `jitter` of itself.
-- Never raises: the exponent is clamped before power() (2^1024 overflows a double), and what is below a microsecond is 0.
-- part: send, work, operate, read
create function redrive.backoff(p_attempt integer, p_base numeric, p_factor numeric, p_cap numeric, p_jitter numeric)
returns numeric
language sql volatile parallel safe set search_path = pg_catalog, pg_temp
as $$
    select round((
        case
            when p_base < 0.000001 or p_cap < 0.000001 then 0
            when p_factor <= 1 then least(p_cap, p_base)
            when (greatest(p_attempt, 1) - 1) * ln(least(p_factor, 1e100)::float8)
                 >= ln(least(p_cap, 1e100)::float8) - ln(least(p_base, 1e100)::float8) then p_cap
            else least(p_cap, (p_base::float8 * power(least(p_factor, 1e100)::float8, greatest(p_attempt, 1) - 1))::numeric)
        end
        * (1 - p_jitter * random()::numeric)
    )::numeric, 6)
$$;
revoke all on function redrive.backoff(integer, numeric, numeric, numeric, numeric) from public;
