-- unsilence: end silences now: one by its id, or those of this rule and this subject (null: of any), or all (p_all).
-- Returns how many were running.
-- part: operate
create function redrive.unsilence(p_id bigint default null, p_rule text default null, p_subject text default null, p_all boolean default false)
returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := redrive.clock();
    v_ended integer;
begin
    if p_id is null and p_rule is null and p_subject is null and p_all is not true then
        perform redrive._refuse('unsilence takes the id of a silence, a rule or a subject; p_all => true ends every silence');
    end if;
    update redrive.silence s set until = v_now
     where s.until > v_now
       and (p_id is null or s.id = p_id) and (p_rule is null or s.rule = p_rule) and (p_subject is null or s.subject = p_subject);
    get diagnostics v_ended = row_count;
    return v_ended;
end
$$;
revoke all on function redrive.unsilence(bigint, text, text, boolean) from public;
