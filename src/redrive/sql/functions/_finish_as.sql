-- _finish_as: what settle judged to be at its end, by what was reported: done or ignored.
create function redrive._finish_as(q redrive.queue, j redrive._judged, p_ids bigint[], p_outcomes text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_outcome text;
    v_ids bigint[];
    v_durations double precision[];
begin
    if 'ignored' <> all (p_outcomes) then
        perform redrive._finish(q, j.finishes, 'done', j.durations);
        return;
    end if;
    foreach v_outcome in array array['done', 'ignored'] loop
        select array_agg(f.id), array_agg(f.duration) into v_ids, v_durations
          from unnest(j.finishes, j.durations) f(id, duration)
          join unnest(p_ids, p_outcomes) r(id, outcome) on r.id = f.id and r.outcome = v_outcome;
        if v_ids is not null then
            perform redrive._finish(q, v_ids, v_outcome, v_durations);
        end if;
    end loop;
end
$$;
revoke all on function redrive._finish_as(redrive.queue, redrive._judged, bigint[], text[]) from public;
