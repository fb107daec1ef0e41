"""What a run leaves behind, from the state before its first request to the last file it writes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentcli.app.session import Session
from agentcli.machine.snapshot import Snapshot
from agentcli.types.errors import SettingsError
from agentcli.ui.bundle import Bundle, Leavings
from agentcli.ui.findings import FindingsOf
from agentcli.ui.oneshot import Run
from agentcli.ui.reports.account import Account
from agentcli.ui.tally import Tally

SNAPSHOT = "snapshot.git"
"""In the session's directory, while the run lasts."""


class Leaving:
    def __init__(
        self,
        leavings_of: Callable[[], Leavings],
        *,
        answer_of: Callable[[Tally], str],
        findings_of: FindingsOf,
    ) -> None:
        self._leavings_of = leavings_of
        self._answer_of = answer_of
        self._leavings = Leavings()
        self._bundle: Bundle | None = None
        self._findings_of = findings_of
        self._session: Session | None = None
        self._snapshot: Snapshot | None = None
        self._patch = ""
        self._is_gathered = False

    def check(self) -> None:
        """Raises UsageError where it could not be left; then nothing will be."""
        self._leavings = self._leavings_of()
        self._bundle = self._leavings.opened()

    async def begin(self, session: Session) -> None:
        self._session = session
        if not self._leavings.wants_patch:
            return
        directory: Path = session.place.directory / SNAPSHOT
        try:
            self._snapshot = await asyncio.to_thread(
                Snapshot, session.settings.workspace, directory
            )
        except SettingsError:
            if self._leavings.patch is not None:
                raise
            # Nobody insists on a patch: the reports show what the tools recorded.

    def gather(self, tally: Tally) -> None:
        """Writes the files that were asked for by name. Raises SettingsError."""
        if self._bundle is None or self._is_gathered:
            return
        self._is_gathered = True
        fault = self._take_patch(tally)
        self._bundle.write_named(answer=self._answer_of(tally), patch=self._patch)
        if fault is not None and self._bundle.patch is not None:
            raise fault

    def leave(self, run: Run) -> None:
        """Writes what tells of the outcome, too. Raises SettingsError."""
        if self._bundle is None:
            return
        self.gather(run.tally)
        outcome, tally = run.outcome, run.tally
        account = Account(
            outcome=outcome,
            tally=tally,
            findings=tuple(self._findings_of(tally, outcome)),
            answer=self._answer_of(tally),
            patch=self._patch,
        )
        settings = run.order.settings if run.order else None
        self._bundle.write(account, settings=settings, log=run.log)

    def _take_patch(self, tally: Tally) -> SettingsError | None:
        """All that has changed; or what the tools have recorded of it, and why it is no more."""
        self._patch = "".join(diff.unified for diff in tally.diffs)
        if self._session is None or self._snapshot is None:
            return None
        try:
            self._patch = self._session.clean(self._snapshot.patch())
        except SettingsError as fault:
            return fault
        finally:
            self._snapshot.close()
        return None
