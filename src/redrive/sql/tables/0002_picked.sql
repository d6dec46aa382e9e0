-- What one round of claim locked: passed between its steps, never stored, in no public signature.
-- tids, ids, dues: what may be handed out, side by side; keys: their keys, null where no message of the round has one;
-- spent: over their budget; gaps: those whose last delivery nobody reported;
-- reached: how far into the due messages the round looked; found, wanted: how many it locked and asked for.
create type redrive._picked as (
    tids tid[], ids bigint[], dues timestamptz[], keys text[], spent bigint[], gaps bigint[],
    reached timestamptz, found integer, wanted integer
);

-- What settle decided about the reports it was given: side by side, one entry a report, in no particular order.
-- finishes/durations: those that are done; keyed, keys: those of them that hold a key;.
create type redrive._judged as (
    ids bigint[], cts integer[], verdicts text[], finishes bigint[], durations double precision[],
    keyed bigint[], keys text[], others boolean, missing boolean
);
