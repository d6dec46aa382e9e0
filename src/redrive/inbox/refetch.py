"""Re-fetch: the event is a signal, the API's answer is the truth.

Guarantees  the state that is written and the completion of the event's job commit together;
            an answer that was asked for before another that is written already is dropped, so the order in
            which events arrive does not matter;
            no transaction and no connection is held while the API is asked.
Not given   that each event's own state was ever seen: only the latest counts.
"""

from __future__ import annotations

from redrive.inbox.source import Api, Signal, Source, State, tables_of
from redrive.job import Ignored, Job, ask
from redrive.store import adapters, events


async def refetch(event: Signal, job: Job, api: Api) -> None:
    """Fetch what `event` is about and write it, completing `job`.

    Raises `Ignored` when the API cannot be asked for it, and what the source raises.
    """
    # In one order everywhere: two events about the same resources would else wait for each other.
    resources = sorted(set(api.resources(event)))
    if not resources or not isinstance(api, Source):
        raise Ignored
    # By the database's clock, and before the API is asked: whatever happened until then, the answer shows.
    began = await ask(job, events.now())
    answers: list[tuple[str, State | None]] = [(each, await api.fetch(each)) for each in resources]
    async with tables_of(api), job.transaction() as connection:
        await api.check_tables(connection, event.source)
        for resource, state in answers:
            if not await adapters.run(events.note_fetch(event.source, resource, began), connection):
                continue
            if state is None:
                await api.delete(connection, resource, began, event)
            else:
                await api.upsert(connection, resource, state, began)
