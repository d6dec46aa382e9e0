-- _check_queue_name: the one rule for names redrive creates, refused with the rule. 43, so that <queue>_dlq fits pgmq's 47.
create function redrive._check_queue_name(p_queue text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if p_queue is null then
        perform redrive._refuse('queue name is null; name a queue');
    elsif length(p_queue) > 43 then
        perform redrive._refuse(format(
            'queue name %s is %s characters; the limit is 43 so that its dead-letter queue''s name fits; shorten it', p_queue, length(p_queue)));
    elsif p_queue !~ '^[a-z][a-z0-9_]{0,42}$' or p_queue like '%\_dlq' then
        perform redrive._refuse(format('queue name %L is refused; the rule is: a lower-case letter, then lower-case letters, '
            'digits or _, at most 43 characters, not ending in _dlq', p_queue));
    end if;
end
$$;
revoke all on function redrive._check_queue_name(text) from public;
