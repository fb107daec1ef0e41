"""What a run leaves behind, from the state before its first request to the last file it writes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentcli.app.session import Session
from agentcli.machine.snapshot import WorkspaceSnapshot
from agentcli.types.errors import SettingsError
from agentcli.ui.bundle import ArtifactFiles, ArtifactOptions
from agentcli.ui.findings import CollectFindings
from agentcli.ui.oneshot import RunState
from agentcli.ui.reports.account import RunSummary
from agentcli.ui.tally import Tally

SNAPSHOT = "snapshot.git"
"""In the session's directory, while the run lasts."""


class Artifacts:
    def __init__(
        self,
        read_options: Callable[[], ArtifactOptions],
        *,
        get_answer: Callable[[Tally], str],
        collect_findings: CollectFindings,
    ) -> None:
        self._read_options = read_options
        self._get_answer = get_answer
        self._options = ArtifactOptions()
        self._files: ArtifactFiles | None = None
        self._collect_findings = collect_findings
        self._session: Session | None = None
        self._snapshot: WorkspaceSnapshot | None = None
        self._patch = ""
        self._is_collected = False

    def check(self) -> None:
        """Raises UsageError where it could not be left; then nothing will be."""
        self._options = self._read_options()
        self._files = self._options.open_files()

    async def begin(self, session: Session) -> None:
        self._session = session
        if not self._options.wants_patch:
            return
        directory: Path = session.paths.directory / SNAPSHOT
        try:
            self._snapshot = await asyncio.to_thread(
                WorkspaceSnapshot, session.settings.workspace, directory
            )
        except SettingsError:
            if self._options.patch is not None:
                raise
            # Nobody insists on a patch: the reports show what the tools recorded.

    def collect(self, tally: Tally) -> None:
        """Writes the files that were asked for by name. Raises SettingsError."""
        if self._files is None or self._is_collected:
            return
        self._is_collected = True
        fault = self._collect_patch(tally)
        self._files.write_named_files(answer=self._get_answer(tally), patch=self._patch)
        if fault is not None and self._files.patch is not None:
            raise fault

    def write(self, run: RunState) -> None:
        """Writes what tells of the outcome, too. Raises SettingsError."""
        if self._files is None:
            return
        self.collect(run.tally)
        outcome, tally = run.outcome, run.tally
        account = RunSummary(
            outcome=outcome,
            tally=tally,
            findings=tuple(self._collect_findings(tally, outcome)),
            answer=self._get_answer(tally),
            patch=self._patch,
        )
        settings = run.task.settings if run.task else None
        self._files.write(account, settings=settings, log=run.log)

    def _collect_patch(self, tally: Tally) -> SettingsError | None:
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
