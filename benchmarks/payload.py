"""Payloads: about 120 bytes of JSON each, all different."""

from __future__ import annotations

from typing import Any


def payloads(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "template": "weekly_digest",
            "user_id": f"6f1c1d3e-0000-4000-8000-{n:012d}",
            "locale": "en",
            "attempt_of": "bench",
        }
        for n in range(first, first + count)
    ]
