"""A message to the turn that is running: it brings the files that it mentions, as a prompt does."""

import asyncio
from typing import TYPE_CHECKING

from agentcli.ui.repl.mentions import attach

if TYPE_CHECKING:
    from agentcli.app.session import Session
    from agentcli.app.steering import Steered
    from agentcli.ui.repl.repl import Repl
    from agentcli.ui.repl.story import Story


def steer(repl: "Repl", text: str) -> None:
    """It waits from now on: a turn that ends meanwhile gives it back, to be the next prompt."""
    session = repl.session
    steered = session.steering.add(text)
    repl.actions.do(_read(steered, session, repl.stage.story))


async def _read(steered: "Steered", session: "Session", story: "Story") -> None:
    attached = await asyncio.to_thread(attach, steered.text, session.settings.workspace)
    story.notes[steered.text] = attached.notes
    session.send_along(steered, attached.parts)
