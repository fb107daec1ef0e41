"""What a person has typed in a project, kept on disk: the history, and the draft of a message."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.draft import SAVE_EVERY_S, Drafts
from agentcli.ui.repl.history_file import ProjectHistory, find_project_directory


class InputHistory:
    def __init__(self, workspace: Path, *, mask: Callable[[str], str]) -> None:
        """`mask`: takes secrets out of what is kept for good."""
        directory = find_project_directory(workspace)
        self._drafts = Drafts(directory)
        self._reported: set[str] = set()
        self.history = ProjectHistory(directory / "history.jsonl", mask=mask)

    def take_complaint(self) -> str:
        """Of a history that cannot be used; empty: there is none, or it was told before."""
        complaint = self.history.complaint
        if not complaint or complaint in self._reported:
            return ""
        self._reported.add(complaint)
        return complaint

    def offer_draft(self, composer: Composer) -> bool:
        """Whether a session that died left one: Up brings it back."""
        draft = self._drafts.take_abandoned()
        if draft:
            composer.buffer.history.append_string(draft)
        return bool(draft)

    async def save_drafts(self, composer: Composer) -> None:
        """Keeps what is being written, until it is cancelled."""
        changed = asyncio.Event()
        composer.buffer.on_text_changed += lambda _: changed.set()
        while True:
            await changed.wait()
            changed.clear()
            self.save_draft(composer)
            await asyncio.sleep(SAVE_EVERY_S)

    def save_draft(self, composer: Composer) -> None:
        self._drafts.save(composer.text)
