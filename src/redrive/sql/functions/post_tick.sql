-- post_tick: have pg_net call whoever works this queue: a job of pg_cron's. URL and key are secrets of Vault, named here; neither stands in
-- an error, a table or the job's command, and where one is missing or empty this raises, so that the run fails.
-- p_path is put behind the URL, /functions/v1 once where both have it. A secret key of Supabase's (sb_secret_) goes in the header apikey, anything
-- else as a bearer token. The request's id is kept: what pg_net got for an answer is the gauge tick_failed. Called by the owner alone, whose
-- secrets these are. Null, and no call, while the queue is paused.
create function redrive.post_tick(p_queue text, p_url_secret text, p_path text, p_key_secret text, p_timeout numeric default 60) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q redrive.queue := redrive._policy_of(p_queue);
    v_url text;
    v_key text;
    v_id bigint;
begin
    if p_path is null or p_path !~ '^/[^[:space:]]*$' then
        perform redrive._refuse(format('path %L is refused; it begins with / and has no white space', p_path));
    elsif p_timeout is null or p_timeout < 1 or p_timeout > 600 then
        perform redrive._refuse(format('timeout is %s; it must be seconds from 1 to 600', coalesce(p_timeout::text, 'null')));
    end if;
    v_url := redrive._vault(p_url_secret);
    v_key := redrive._vault(p_key_secret);
    if v_url !~* '^https?://[^[:space:]?#]+$' then
        raise exception 'Vault''s secret % is no URL that a path can be put behind: it begins with http:// or https:// and has no ?, # or white space; run: redrive supabase secrets set %',
            p_url_secret, p_url_secret using errcode = '55000';
    elsif v_key !~ '^[!-~]+$' then
        raise exception 'Vault''s secret % cannot be sent as a key: it has white space or characters that are no ASCII; run: redrive supabase secrets set %',
            p_key_secret, p_key_secret using errcode = '55000';
    elsif to_regproc('net.http_post') is null then
        raise exception 'pg_net is not installed in this database, so nothing can be called from it; run: create extension pg_net' using errcode = '55000';
    elsif q.paused then
        return null;
    end if;
    v_url := rtrim(v_url, '/');
    if v_url like '%/functions/v1' and starts_with(p_path, '/functions/v1/') then
        p_path := substr(p_path, length('/functions/v1/'));
    end if;
    begin
        execute 'select net.http_post(url => $1, body => $2, headers => $3, timeout_milliseconds => $4)' into v_id
          using v_url || p_path, jsonb_build_object('queue', p_queue),
                jsonb_build_object('Content-Type', 'application/json',
                                   case when starts_with(v_key, 'sb_secret_') then 'apikey' else 'Authorization' end,
                                   case when starts_with(v_key, 'sb_secret_') then v_key else 'Bearer ' || v_key end),
                ceil(p_timeout * 1000)::integer;
    exception when others then
        raise exception 'pg_net refused the call for queue %: %', p_queue, replace(replace(redrive._without_url(sqlerrm, v_url || p_path), left(right(to_json(v_key)::text, -1), -1), '<key>'), v_key, '<key>')
            using errcode = sqlstate;
    end;
    -- pg_net's numbers begin again after a crash.
    insert into redrive.http_call as c (request_id, queue, at, timeout_sec) values (v_id, p_queue, redrive.clock(), p_timeout)
    on conflict (request_id) do update set queue = excluded.queue, at = excluded.at, timeout_sec = excluded.timeout_sec;
    delete from redrive.http_call c
     where c.queue = p_queue and c.at < (select o.at from redrive.http_call o where o.queue = p_queue order by o.at desc offset 99 limit 1);
    return v_id;
end
$$;
revoke all on function redrive.post_tick(text, text, text, text, numeric) from public;
