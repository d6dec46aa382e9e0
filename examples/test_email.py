"""A user who is impatient gets one email. Run by pytest with pytest-asyncio in its auto mode."""

from uuid import uuid4

from examples.email import app, welcome
from redrive.testing import Ran, assert_sent, run_until_idle


async def test_whoever_signs_up_twice_is_welcomed_once(redrive_use):
    redrive_use(app)
    user = uuid4()
    for _click in range(2):
        await welcome(user)
    assert_sent("email_jobs", {"template": "welcome", "user_id": user})
    assert await run_until_idle(app) == Ran(done=1)
