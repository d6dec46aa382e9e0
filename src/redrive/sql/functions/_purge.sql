-- _purge: delete one batch of what is over, along an index, and return the rows; p_rows false: their number alone, in one row.
-- Rows somebody holds are left for another time; where a whole table is locked it gives up after a second and says so.
create function redrive._purge(p_what text, p_queue text, p_before timestamptz, p_batch integer, p_rows boolean)
returns table (deleted bigint, line jsonb)
language plpgsql set search_path = '' set lock_timeout = '1s'
as $$
declare
    t record;
    v_done bigint := 0;
    v_now bigint;
    v_gone text;
begin
    if p_batch is null or p_batch not between 1 and 100000 then
        perform redrive._refuse(format('batch is %s; it must be from 1 to 100000', coalesce(p_batch::text, 'null')));
    end if;
    for t in select * from redrive._targets(p_what, p_queue) loop
        exit when v_done >= p_batch;
        begin
            -- Where the rows stand is found and locked first, then they go by that: the cheapest way there is.
            v_gone := format('with gone as (delete from %1$s t where t.ctid = any (array(
                                  select t.ctid from %1$s t where %2$s order by %3$s limit $2 for update of t skip locked)) returning t.*)',
                             t.relation, t.condition, t.sort);
            if p_rows then
                return query execute v_gone || ' select 1::bigint, jsonb_build_object(''from'', $3::text) || to_jsonb(g) from gone g'
                   using p_before, p_batch - v_done, t.relation;
                get diagnostics v_now = row_count;
            else
                execute v_gone || ' select count(*) from gone' into v_now using p_before, p_batch - v_done;
            end if;
            v_done := v_done + v_now;
        exception when lock_not_available then
            raise exception '% is locked by somebody else for longer than a second; this batch was not deleted', t.relation
                using errcode = 'lock_not_available';
        end;
    end loop;
    if not p_rows then
        return query select v_done, null::jsonb;
    end if;
end
$$;
revoke all on function redrive._purge(text, text, timestamptz, integer, boolean) from public;
