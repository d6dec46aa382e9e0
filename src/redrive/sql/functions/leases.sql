-- leases: who holds what until when, by the database's clock. Single-flight queues stand here as queue:<name>.
-- part: operate, read
create function redrive.leases() returns table (name text, token bigint, holder text, acquired_at timestamptz, lease_until timestamptz, held boolean)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select l.name, l.token, l.holder, l.acquired_at, l.lease_until, l.lease_until > redrive.clock() from redrive.lease l order by l.name
$$;
revoke all on function redrive.leases() from public;
