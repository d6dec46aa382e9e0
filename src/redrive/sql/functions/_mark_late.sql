-- _mark_late: write which delivery ended the message, where that is not its last one: the last one's own report is then lost, not a repeat.
-- Without headers the read_ct itself says it: the row leaves the queue in this very transaction, so nobody's fence sees it lowered.
create function redrive._mark_late(q redrive.queue, j redrive._judged) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('update pgmq.%I m set %s from unnest($1, $2, $3) v(id, ct, verdict)
                     where m.msg_id = v.id and v.verdict = ''late'' and v.id = any ($4)', 'q_' || q.queue,
                   case when q.has_headers then format('headers = %s || jsonb_build_object(''x-redrive-late'', v.ct)', redrive._part(q, 'bag'))
                        else 'read_ct = v.ct' end)
      using j.ids, j.cts, j.verdicts, j.finishes;
end
$$;
revoke all on function redrive._mark_late(redrive.queue, redrive._judged) from public;
