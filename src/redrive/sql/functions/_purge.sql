-- _purge: delete one batch of what is over, along an index, and return the rows; p_rows false: their number alone, in one row.
-- Rows somebody holds are left for another time. A table that is locked for longer than a second, or whose rows something of the
-- user's keeps, is left out and named in a warning; where nothing else went either, in an error.
create function redrive._purge(p_what text, p_queue text, p_before timestamptz, p_batch integer, p_rows boolean)
returns table (deleted bigint, line jsonb)
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '1s'
as $$
declare
    t record;
    v_done bigint := 0;
    v_now bigint;
    v_gone text;
    v_trouble text;
    v_state text;
    v_code text;
    v_constraint text;
    v_of text;
begin
    for t in select * from redrive._targets(p_what, p_queue) loop
        exit when v_done >= p_batch;
        begin
            -- Where the rows stand is found and locked first, then they go by that: the cheapest way there is. A place is one in
            -- its own table: an archive may be partitioned, or have children. `is true` keeps that check from becoming a join.
            v_gone := format('with picked as materialized (
                                  select t.tableoid as part, t.ctid as place from %1$s t where %2$s order by %3$s limit $2 for update of t skip locked),
                              gone as (delete from %1$s t where t.ctid = any (array(select p.place from picked p))
                                          and ((t.tableoid, t.ctid) in (select p.part, p.place from picked p)) is true returning t.*)',
                             t.relation, t.condition, t.sort);
            if p_rows then
                return query execute v_gone || ' select 1::bigint, jsonb_build_object(''from'', $3::text) || to_jsonb(g) from gone g'
                   using p_before, p_batch - v_done, t.relation;
                get diagnostics v_now = row_count;
            else
                execute v_gone || ' select count(*) from gone' into v_now using p_before, p_batch - v_done;
            end if;
            v_done := v_done + v_now;
        exception
            when serialization_failure or deadlock_detected then
                raise;
            when others then
                get stacked diagnostics v_state = returned_sqlstate, v_constraint = constraint_name, v_of = table_name;
                v_trouble := redrive._purge_trouble(t.known_as, v_state, sqlerrm, v_constraint, v_of);
                v_code := case v_state when '55P03' then '55P03' else 'RD002' end;
                if p_rows and v_code = 'RD002' then
                    -- Rows that were answered already are still there.
                    raise exception '%', v_trouble using errcode = v_code;
                end if;
                raise warning '%', v_trouble;
        end;
    end loop;
    if v_done = 0 and v_trouble is not null then
        raise exception '%', v_trouble using errcode = v_code;
    elsif not p_rows then
        return query select v_done, null::jsonb;
    end if;
end
$$;
revoke all on function redrive._purge(text, text, timestamptz, integer, boolean) from public;
