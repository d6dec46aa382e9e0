-- _settle_others: the reports that are neither done nor ignored: failures into the history, messages back with their delay or dead, keys freed.
create function redrive._settle_others(
    q redrive.queue, j redrive._judged, p_ids bigint[], p_cts integer[], p_outcomes text[], p_delays numeric[], p_error_types text[],
    p_errors text[], p_tracebacks text[], p_durations numeric[], p_worker text,
    out failed integer, out dead integer, out given_back integer)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_ids bigint[];
    v_outcomes text[];
    v_delays double precision[];
    v_dead bigint[];
    v_reasons text[];
    v_keys text[];
    v_owners bigint[];
begin
    execute format($q$
        insert into redrive.attempt (queue, msg_id, read_ct, attempt, at, worker, duration, error_type, error, traceback)
        select $1, m.msg_id, m.read_ct, %s, $2, $3, r.duration, left(coalesce(r.error_type, r.outcome), 200), left(r.error, 4000), left(r.traceback, 16000)
          from unnest($4, $5, $6, $7, $8, $9, $10::double precision[]) r(id, ct, outcome, error_type, error, traceback, duration)
          join unnest($11, $12, $13) v(id, ct, verdict) on v.id = r.id and v.ct = r.ct and v.verdict in ('ok', 'dead')
          join pgmq.%I m on m.msg_id = r.id
         where r.outcome not in ('done', 'ignored', 'snooze')
        on conflict do nothing $q$, redrive._part(q, 'attempt'), 'q_' || q.queue)
      using q.queue, v_now, p_worker, p_ids, p_cts, p_outcomes, p_error_types, p_errors, p_tracebacks, p_durations, j.ids, j.cts, j.verdicts;
    execute $q$
        select array_agg(r.id) filter (where v.verdict = 'ok'), array_agg(r.outcome) filter (where v.verdict = 'ok'),
               array_agg(r.delay) filter (where v.verdict = 'ok'), array_agg(r.id) filter (where v.verdict = 'dead'),
               array_agg(case r.outcome when 'reject' then 'rejected' when 'retry' then 'failed' else r.outcome end) filter (where v.verdict = 'dead'),
               count(*) filter (where r.outcome <> 'snooze'), count(*) filter (where r.outcome = 'snooze')
          from unnest($1, $2, $3, $4::double precision[]) r(id, ct, outcome, delay)
          join unnest($5, $6, $7) v(id, ct, verdict) on v.id = r.id and v.ct = r.ct
         where v.verdict in ('ok', 'dead') and r.outcome not in ('done', 'ignored') $q$
       into v_ids, v_outcomes, v_delays, v_dead, v_reasons, failed, given_back
      using p_ids, p_cts, p_outcomes, p_delays, j.ids, j.cts, j.verdicts;
    if q.inbox then
        perform redrive._fail_events(q, v_ids || v_dead);
    end if;
    execute format($q$
        with back as (
            update pgmq.%I m
               set vt = $4 + make_interval(secs => coalesce(r.delay, redrive.backoff(%s, $5, $6, $7, $8)::double precision)) %s
              from unnest($1, $2, $3) r(id, outcome, delay) where m.msg_id = r.id
            returning m.*)
        select array_agg(%s), array_agg(m.msg_id) from back m where %s is not null $q$,
        'q_' || q.queue, redrive._part(q, 'attempt'),
        case when q.has_headers then format(
            ', headers = %s || jsonb_build_object(''x-redrive-settled'', m.read_ct)
               || case when r.outcome = ''snooze'' then jsonb_build_object(''x-redrive-credit'', %s + 1) else ''{}'' end',
            redrive._part(q, 'bag'), redrive._part(q, 'credit'))
        else '' end, redrive._part(q, 'key'), redrive._part(q, 'key'))
       into v_keys, v_owners using v_ids, v_outcomes, v_delays, v_now, q.backoff_base, q.backoff_factor, q.backoff_cap, q.backoff_jitter;
    if v_keys is not null then
        perform redrive._free_keys(q.queue, v_keys, v_owners);
    end if;
    -- Reported, as against buried by a claim: a resend then finds in the archive that it is one.
    if v_dead is not null and q.has_headers then
        execute format('update pgmq.%I m set headers = %s || jsonb_build_object(''x-redrive-settled'', m.read_ct) where m.msg_id = any ($1)',
                       'q_' || q.queue, redrive._part(q, 'bag'))
          using v_dead;
    end if;
    dead := redrive._bury(q, v_dead, v_reasons);
end
$$;
revoke all on function redrive._settle_others(redrive.queue, redrive._judged, bigint[], integer[], text[], numeric[], text[], text[], text[], numeric[], text) from public;
