-- _prepare_tables: what redrive needs of a pgmq queue's tables: outcome and duration on the archive, autovacuum that
-- keeps up. Looks before each ALTER: even a no-op would wait for every reader (ACCESS EXCLUSIVE).
-- p_own: a queue redrive created, whose row security is redrive's to switch on.
create function redrive._prepare_tables(p_queue text, p_own boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp
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
        -- For tables that are large with parked messages: a fifth of ten million would have to die before a vacuum.
        -- A busy small one is vacuumed once a minute (autovacuum_naptime) anyway. Measured, 1,600 jobs/s on each of
        -- five queues for 5 minutes, ms for send + claim + settle of 200: stock 18.2, these 17.8, fillfactor 70 18.7,
        -- 50 18.1, no truncation 18.1; tables of 45, 45, 57, 56, 54 MB. So fillfactor stays 100: vt is indexed, no
        -- update is ever HOT. pgmq's index on vt is enough: 200,000 parked messages in front add nothing to a claim.
        if p_own and v_name like 'q\_%' and (select reloptions from pg_class where oid = v_table) is null then
            execute format('alter table %s set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, '
                           'autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2)', v_table);
        end if;
    end loop;
end
$$;
revoke all on function redrive._prepare_tables(text, boolean) from public;
