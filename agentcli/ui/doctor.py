"""What works on this machine and what does not, each with the command that fixes it."""

import locale
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli import __version__
from agentcli.app.hooks import own_hooks
from agentcli.app.model import open_model
from agentcli.app.project import DIRECTORY, open_project, project_rules
from agentcli.guard.sandbox.choose import Finding as Layer
from agentcli.guard.sandbox.choose import Ground, describe
from agentcli.guard.sandbox.remedies import Remedy, workspace_unwritable
from agentcli.machine.own_process import find_program
from agentcli.record.place import sessions_directory
from agentcli.settings import Given, Settings, hooks_file, load, settings_file, unset
from agentcli.tools.searching.ripgrep import PACKAGE
from agentcli.tools.searching.ripgrep import find as find_ripgrep
from agentcli.types.errors import AgentError, Exit, SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    subject: str
    words: str
    status: Literal["ok", "warn", "FAIL"] = "ok"
    fix: str = ""


def examine(flags: Given, *, workspace: Path) -> Exit:
    """Prints one line per finding. Fails when a run could not work.

    Settings that cannot be used are one of them: the rest is looked at as if nothing were set."""
    fault, failed = None, False
    try:
        settings = load(flags, workspace=workspace)
    except SettingsError as error:
        fault, settings = error, unset(flags, workspace=workspace)
    for finding in findings(settings, fault=fault):
        failed = failed or finding.status == "FAIL"
        sys.stdout.write(f"{finding.status:<4}  {finding.subject:<9}  {finding.words}\n")
        if finding.fix:
            sys.stdout.write(f"{'':<17}fix: {finding.fix}\n")
    return Exit.SETTINGS if failed else Exit.DONE


def findings(settings: Settings, *, fault: SettingsError | None = None) -> Iterator[Finding]:
    """`fault`: what is wrong with the settings, of which these are none then."""
    yield Finding(
        subject="agentcli",
        words=f"{__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}",
    )
    yield _model(settings)
    yield _state()
    yield _settings_file(fault)
    yield _hooks()
    yield _project(settings)
    bash, git = (find_program(name, beside=settings.workspace) for name in ("bash", "git"))
    yield _program("bash", bash, "the bash tool cannot run", "apt-get install bash", needed=True)
    yield _program(
        "git", git, "no repository can be looked at", "apt-get install git", needed=False
    )
    yield _sandbox(settings)
    yield _ripgrep(settings)
    yield _terminal()
    yield _workspace(settings)


def _model(settings: Settings) -> Finding:
    try:
        return Finding(subject="model", words=open_model(settings).name)
    except AgentError as error:
        return Finding(subject="model", words=str(error), status="FAIL", fix=error.hint)


def _state() -> Finding:
    try:
        sessions = sessions_directory()
        sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=sessions):
            return Finding(subject="sessions", words=f"kept in {sessions}")
    except (AgentError, OSError) as error:
        fix = "export XDG_STATE_HOME=/a/directory/that/can/be/written"
        return Finding(subject="sessions", words=str(error), status="FAIL", fix=fix)


def _settings_file(fault: SettingsError | None) -> Finding:
    if fault is not None:
        return Finding(subject="settings", words=str(fault), status="FAIL", fix=fault.hint)
    path = settings_file()
    return Finding(subject="settings", words=str(path) if path.exists() else f"none ({path})")


def _hooks() -> Finding:
    path = hooks_file()
    try:
        found = own_hooks(path)
    except AgentError as error:
        return Finding(subject="hooks", words=str(error), status="FAIL", fix=error.hint)
    if found is None or not (found.hooks or found.warnings):
        return Finding(subject="hooks", words=f"none ({path})")
    words = "; ".join((f"{len(found.hooks)} in {path}", *found.warnings))
    if found.warnings:
        return Finding(subject="hooks", words=words, status="warn", fix=f"edit {path}")
    return Finding(subject="hooks", words=words)


def _project(settings: Settings) -> Finding:
    try:
        project = open_project(settings.workspace)
        project_rules(project)
    except AgentError as error:
        return Finding(subject="project", words=str(error), status="FAIL", fix=error.hint)
    if project is None:
        return Finding(subject="project", words=f"brings no {DIRECTORY}")
    if project.warning:
        return Finding(subject="project", words=project.warning, status="warn")
    return Finding(subject="project", words=f"{project.files.directory} is used")


def _program(name: str, path: str | None, without: str, fix: str, *, needed: bool) -> Finding:
    if path:
        return Finding(subject=name, words=path)
    status: Literal["FAIL", "warn"] = "FAIL" if needed else "warn"
    return Finding(subject=name, words=f"not found: {without}", status=status, fix=fix)


def _sandbox(settings: Settings) -> Finding:
    """What commands of this workspace would run in, why, and whether there is something better."""
    try:
        found = _layers(settings)
    except AgentError as error:
        return Finding(subject="sandbox", words=str(error), status="warn", fix=error.hint)
    wanted = [one for one in found if settings.sandbox in ("auto", one.layer)]
    used = next((one for one in wanted if one.works), None)
    words = (
        _used(settings, used)
        if used or settings.sandbox == "off"
        else _none_works(settings, wanted)
    )
    better = found[: found.index(used)] if used else found
    if best := next((one for one in better if one.works), None):
        words += f" {best.layer} works here{' and is stronger' if used else ''}."
        fix = f"agentcli --sandbox {best.layer}, or the same in {settings_file()}"
        return Finding(subject="sandbox", words=words, status="warn", fix=fix)
    if used and better:
        words += f" Stronger would be {better[0].layer}: {better[0].reason}"
    fix = next((one.fix for one in better if one.fix), "")
    is_well = used is not None and not fix
    return Finding(subject="sandbox", words=words, status="ok" if is_well else "warn", fix=fix)


def _layers(settings: Settings) -> tuple[Layer, ...]:
    with tempfile.TemporaryDirectory(prefix="agentcli-doctor-") as private:
        return describe(Ground(workspace=settings.workspace, private=Path(private)))


def _used(settings: Settings, used: Layer | None) -> str:
    if used is None:
        return "off, as asked for: commands run as you would."
    why = "the strongest that works here" if settings.sandbox == "auto" else "as asked for"
    gaps = f" It leaves open: {' '.join(used.gaps)}" if used.gaps else ""
    return f"{used.layer}, {why}.{gaps}"


def _none_works(settings: Settings, wanted: Sequence[Layer]) -> str:
    reasons = " ".join(one.reason for one in wanted)
    if not wanted and settings.sandbox == "auto":
        reasons = "There is none for this system."
    elif not wanted:
        reasons = f"{settings.sandbox} is not for this system."
    return f"none works: every command needs a yes. {reasons}"


def _workspace(settings: Settings) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=settings.workspace):
            return Finding(subject="workspace", words=str(settings.workspace))
    except OSError as error:
        found = workspace_unwritable(error, settings.workspace) or Remedy(str(error))
        return Finding(subject="workspace", words=found.reason, status="warn", fix=found.fix)


def _ripgrep(settings: Settings) -> Finding:
    path = find_ripgrep(settings.workspace)
    if path is not None:
        return Finding(subject="ripgrep", words=str(path))
    return Finding(
        subject="ripgrep",
        words="not found: grep and find_files do not work without it",
        status="FAIL",
        fix=f"pip install {PACKAGE}",
    )


def _terminal() -> Finding:
    encoding = locale.getpreferredencoding(do_setlocale=False)
    if not sys.stdout.isatty():
        return Finding(subject="terminal", words=f"none (output is redirected), {encoding}")
    size = shutil.get_terminal_size()
    kind = os.environ.get("TERM", "unknown")
    return Finding(subject="terminal", words=f"{kind}, {size.columns}x{size.lines}, {encoding}")
