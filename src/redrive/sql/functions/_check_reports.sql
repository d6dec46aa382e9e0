-- _check_reports: settle's arrays stand side by side; refuse different lengths, nulls and unknown outcomes.
create function redrive._check_reports(
    p_msg_ids bigint[], p_read_cts integer[], p_outcomes text[], p_delays numeric[], p_error_types text[], p_errors text[],
    p_tracebacks text[], p_durations numeric[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    n constant integer := coalesce(cardinality(p_msg_ids), -1);
begin
    if n < 0 or n <> coalesce(cardinality(p_read_cts), -1) or n <> coalesce(cardinality(p_outcomes), -1)
       or n <> coalesce(cardinality(p_delays), n) or n <> coalesce(cardinality(p_error_types), n) or n <> coalesce(cardinality(p_errors), n)
       or n <> coalesce(cardinality(p_tracebacks), n) or n <> coalesce(cardinality(p_durations), n) then
        perform redrive._refuse('settle takes arrays of one length: message ids, read_cts and outcomes, and the others or null');
    elsif not p_outcomes <@ array['done', 'ignored', 'retry', 'snooze', 'reject', 'malformed', 'crashed'] then
        perform redrive._refuse('settle knows the outcomes done, ignored, retry, snooze, reject, malformed and crashed');
    elsif array_position(p_msg_ids, null) is not null or array_position(p_read_cts, null) is not null then
        perform redrive._refuse('settle was given a message id or read_ct that is null');
    elsif exists (select from unnest(p_delays) d where d < 0 or d > 3155760000 or d = 'NaN') then
        perform redrive._refuse('settle was given a delay that is not a number of seconds from 0 to 3155760000 (a hundred years)');
    elsif exists (select from unnest(p_outcomes, p_delays) r(o, d) where r.o = 'snooze' and r.d is null) then
        perform redrive._refuse('snooze needs a delay in seconds');
    end if;
end
$$;
revoke all on function redrive._check_reports(bigint[], integer[], text[], numeric[], text[], text[], text[], numeric[]) from public;
