-- _prepare_tables: what redrive needs of a pgmq queue's tables: outcome and duration on the archive, autovacuum that
-- keeps up. Looks before each ALTER: even a no-op would wait for every reader (ACCESS EXCLUSIVE).
-- p_own: a queue redrive created, whose row security is redrive's to switch on.
create function redrive._prepare_tables(p_queue text, p_own boolean) returns void
language plpgsql set search_path = ''
as $$
declare
    v_name text;
    v_table regclass;
begin
    foreach v_name in array array['q_' || p_queue, 'a_' || p_queue] loop
        v_table := to_regclass(format('pgmq.%I', v_name));
        if v_table is null then
            raise exception 'table pgmq.% is missing; the queue % is broken', v_name, p_queue using errcode = 'RD002';
        end if;
        if v_name like 'a\_%' and not redrive._has_column(v_table, 'outcome') then
            execute format('alter table %s add column outcome text, add column duration double precision', v_table);
        end if;
        if p_own and not (select relrowsecurity from pg_class where oid = v_table) then
            execute format('alter table %s enable row level security', v_table);
        end if;
        -- Every message is one insert, one or more updates and one delete of q_, so dead rows come at twice the rate
        -- of jobs while the table stays small: a share of the table is no measure, a fixed thousand is.
        if p_own and v_name like 'q\_%' and (select reloptions from pg_class where oid = v_table) is null then
            execute format('alter table %s set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, '
                           'autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2)', v_table);
        end if;
    end loop;
end
$$;
revoke all on function redrive._prepare_tables(text, boolean) from public;
