"""What `redrive` shows is what is listed, and what is listed is documented."""

from __future__ import annotations

import inspect

import redrive


def test_public_names_are_listed_and_sorted() -> None:
    shown = [n for n, v in vars(redrive).items() if not n.startswith("_") and not inspect.ismodule(v)]
    assert redrive.__all__ == sorted(shown, key=str.casefold)


def test_every_public_name_says_what_it_is() -> None:
    undocumented = [name for name in redrive.__all__ if not inspect.getdoc(getattr(redrive, name))]
    assert undocumented == []


def test_the_blocking_face_has_the_same_calls_with_the_same_parameters() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if name in {"send", "send_many", "cancel", "reschedule"}
        }

    from redrive.app import JobHandle, Redrive, SyncHandle, SyncRedrive

    assert calls(SyncRedrive) == calls(Redrive)
    assert calls(SyncHandle) == calls(JobHandle)
    assert set(calls(Redrive)) == {"send", "send_many", "cancel", "reschedule"}
