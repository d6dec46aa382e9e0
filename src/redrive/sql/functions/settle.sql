-- settle: report many deliveries of one queue. One row a report, verdict:
--   ok      it counts                                late    done, after another claimed it; it counts
--   dead    the budget is spent (or reject)          repeat  this delivery was reported before; nothing changed
--   locked  somebody's transaction holds the row; send that one again
--   lost    another delivery owns the message, or it has ended; nothing changed
-- Outcomes: done, ignored (there was nothing to do: as done, and its webhook event says so), retry, snooze, reject, malformed (dead at once, its reason), crashed (a failed attempt of an isolated child).
-- A null delay is the policy's backoff. Fence: read_ct, and that this delivery has not been reported; only *done* may come
-- late, until somebody has settled the message, and with a key only while the key still names this message.
-- Of two reports of one message in a call the first is judged, the other is answered locked.
-- Locks messages by id, then keys; never waits for either.
-- part: work
create function redrive.settle(
    p_queue text, p_msg_ids bigint[], p_read_cts integer[], p_outcomes text[], p_delays numeric[] default null,
    p_error_types text[] default null, p_errors text[] default null, p_tracebacks text[] default null,
    p_durations numeric[] default null, p_worker text default null)
returns table (msg_id bigint, read_ct integer, verdict text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q redrive.queue;
    j redrive._judged;
    v_failed integer := 0;
    v_dead integer := 0;
    v_back integer := 0;
    v_first bigint[];
    v_done bigint[];
begin
    perform redrive._check_reports(p_msg_ids, p_read_cts, p_outcomes, p_delays, p_error_types, p_errors, p_tracebacks, p_durations);
    q := redrive._policy_of(p_queue);
    if (select count(distinct id) from unnest(p_msg_ids) id) < cardinality(p_msg_ids) then
        v_first := array(select min(n) from unnest(p_msg_ids) with ordinality r(id, n) group by r.id);
        return query select s.* from redrive.settle(
            p_queue, redrive._pick_of(p_msg_ids, v_first), redrive._pick_of(p_read_cts, v_first), redrive._pick_of(p_outcomes, v_first),
            redrive._pick_of(p_delays, v_first), redrive._pick_of(p_error_types, v_first), redrive._pick_of(p_errors, v_first),
            redrive._pick_of(p_tracebacks, v_first), redrive._pick_of(p_durations, v_first), p_worker) s;
        return query select r.id, r.ct, 'locked' from unnest(p_msg_ids, p_read_cts) with ordinality r(id, ct, n) where r.n <> all (v_first);
        return;
    end if;
    if ('done' = any (p_outcomes) or q.inbox) and 1 = any (p_read_cts) then
        v_done := redrive._finish_fresh(q, p_msg_ids, p_read_cts, p_outcomes, p_durations);
    end if;
    if cardinality(v_done) is distinct from cardinality(p_msg_ids) then
        j := redrive._judge(q, p_msg_ids, p_read_cts, p_outcomes, p_durations, v_done);
    end if;
    if j.keyed is not null then
        j := redrive._judge_keys(q, j);
    end if;
    if j.missing then
        j.verdicts := redrive._judge_missing(q, j.ids, j.cts, j.verdicts);
    end if;
    if j.finishes is not null and 'late' = any (j.verdicts) then
        perform redrive._mark_late(q, j);
    end if;
    if j.finishes is not null then
        perform redrive._finish_as(q, j, p_msg_ids, p_outcomes);
    end if;
    if j.others then
        select s.failed, s.dead, s.given_back into v_failed, v_dead, v_back
          from redrive._settle_others(q, j, p_msg_ids, p_read_cts, p_outcomes, p_delays, p_error_types, p_errors, p_tracebacks,
                                      p_durations, p_worker) s;
    end if;
    if p_worker is not null then
        perform redrive._count(p_queue, p_worker, 0, coalesce(cardinality(v_done), 0) + coalesce(cardinality(j.finishes), 0), v_failed, v_dead, v_back);
    end if;
    return query select id, 1, 'ok' from unnest(v_done) id
                 union all select v.id, v.ct, v.verdict from unnest(j.ids, j.cts, j.verdicts) v(id, ct, verdict);
end
$$;
revoke all on function redrive.settle(text, bigint[], integer[], text[], numeric[], text[], text[], text[], numeric[], text) from public;
