-- _cron_field: the numbers that a field of a cron text means, in any order. kind: minute, hour, day, month, weekday. Beyond them, of a day:
-- -1 the month's last, -2 its last weekday; of a weekday w: 100 n + w for the n-th of the month, 600 + w for its last.
create function redrive._cron_field(p_text text, p_kind text) returns integer[]
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_low constant integer := case when p_kind in ('day', 'month') then 1 else 0 end;
    v_high constant integer := case p_kind when 'minute' then 59 when 'hour' then 23 when 'day' then 31 when 'month' then 12 else 7 end;
    v_names constant text[] := string_to_array(case p_kind when 'month' then 'JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC'
                                                           when 'weekday' then 'SUN,MON,TUE,WED,THU,FRI,SAT' else '' end, ',');
    v_all integer[] := '{}'::integer[];
    v_item text;
    v_base text;
    v_step integer;
    v_ends integer[];
begin
    foreach v_item in array string_to_array(upper(p_text), ',') loop
        v_base := split_part(v_item, '/', 1);
        v_step := case when strpos(v_item, '/') > 0 then split_part(v_item, '/', 2)::integer else 1 end;
        if p_kind = 'day' and v_base in ('L', 'LW') then
            v_all := v_all || case v_base when 'L' then -1 else -2 end;
            continue;
        end if;
        v_ends := array(select coalesce(array_position(v_names, n.name) + v_low - 1, rtrim(split_part(n.name, '#', 1), 'L')::integer)
                          from unnest(string_to_array(case when v_base = '*' then v_low || '-' || v_high else v_base end, '-')) with ordinality n(name, at)
                         order by n.at);
        if v_step < 1 or cardinality(v_ends) not in (1, 2) or v_ends[1] not between v_low and v_high or v_ends[2] not between v_ends[1] and v_high then
            perform redrive._refuse(format('%s of a cron text cannot be %s', p_kind, p_text));
        elsif p_kind = 'weekday' and v_base ~ '[#L]$|#[1-5]$' then
            v_all := v_all || v_ends[1] + case when v_base like '%L' then 600 else 100 * split_part(v_base, '#', 2)::integer end;
        else
            v_all := v_all || array(select generate_series(v_ends[1], case when cardinality(v_ends) = 2 then v_ends[2] when v_item like '%/%' then v_high
                                                                           else v_ends[1] end, v_step));
        end if;
    end loop;
    return v_all;
exception when invalid_text_representation or numeric_value_out_of_range then
    perform redrive._refuse(format('%s of a cron text cannot be %s', p_kind, p_text));
    return null;
end
$$;
revoke all on function redrive._cron_field(text, text) from public;
