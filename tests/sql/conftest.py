"""The SQL ring runs on every pgmq layout; `tests.support.layouts` has marks for those that cannot."""

from __future__ import annotations

import pytest

from tests.support.layouts import LAYOUTS


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param
