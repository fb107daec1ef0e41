"""Checks of what works on this machine and what does not, each with the command that fixes it."""

import locale
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli import __version__
from agentcli.log.paths import locate_sessions
from agentcli.permissions.policy import load_rules
from agentcli.sandbox.choose import LayerFinding as Layer
from agentcli.sandbox.choose import (
    Remedy,
    SandboxScope,
    describe_layers,
    explain_unwritable_workspace,
)
from agentcli.sandbox.homes import find_home, find_homes_directory
from agentcli.session.configuration import describe_managed, load_configuration, read_user_hooks
from agentcli.session.features import list_foreign_tools
from agentcli.session.model import open_model
from agentcli.session.project import (
    Project,
    apply_project,
    load_project,
    load_project_hooks,
    load_project_rules,
)
from agentcli.settings import (
    HOOKS_FILE,
    RULES_FILE,
    SETTINGS_FILE,
    RawValues,
    build_settings,
    get_user_directory,
    load_settings,
)
from agentcli.system.agent_files import OWN_FOLDER
from agentcli.system.extras import build_install_command, list_installed_extras, read_extras
from agentcli.system.own_process import find_program
from agentcli.tools.search.ripgrep import PACKAGE
from agentcli.tools.search.ripgrep import find_ripgrep as find_ripgrep
from agentcli.types.errors import AgentError, Exit, SettingsError
from agentcli.types.settings import Settings
from agentcli.types.words import format_bytes
from agentcli.ui.crash import describe_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    subject: str
    words: str
    status: Literal["ok", "warn", "FAIL"] = "ok"
    fix: str = ""


def run_checks(options: RawValues, *, workspace: Path) -> Exit:
    """Print one line per finding. Fail if a run could not work.

    Unusable settings are such a finding: the other checks then run as if nothing were set.
    """
    fault, failed = None, False
    try:
        settings = load_settings(options, workspace=workspace, command="doctor")
    except SettingsError as error:
        fault, settings = error, build_settings(options, workspace=workspace, command="doctor")
    for finding in check_machine(settings, fault=fault):
        failed = failed or finding.status == "FAIL"
        sys.stdout.write(f"{finding.status:<4}  {finding.subject:<9}  {finding.words}\n")
        if finding.fix:
            sys.stdout.write(f"{'':<17}fix: {finding.fix}\n")
    return Exit.SETTINGS if failed else Exit.DONE


def check_machine(
    settings: Settings, *, fault: SettingsError | None = None
) -> Iterator[HealthCheck]:
    """Yield the findings.

    `fault` is the error in the settings; `settings` then has only the flags.
    """
    yield HealthCheck(subject="agentcli", words=f"{__version__}, {describe_machine()}")
    yield _check_model(settings)
    yield _check_state()
    yield _check_settings_file(fault)
    yield from _check_managed()
    yield from _check_configuration(settings)
    bash, git = (find_program(name, workspace=settings.workspace) for name in ("bash", "git"))
    yield _check_program(
        "bash", bash, without="the bash tool cannot run", fix="apt-get install bash", needed=True
    )
    yield _check_program(
        "git",
        git,
        without="agentcli cannot see git changes",
        fix="apt-get install git",
        needed=False,
    )
    yield _check_sandbox(settings)
    yield _check_caches(settings)
    yield _check_ripgrep(settings)
    yield _check_extras()
    yield _check_terminal()
    yield _check_workspace(settings)


def _check_model(settings: Settings) -> HealthCheck:
    try:
        return HealthCheck(subject="model", words=open_model(settings).name)
    except AgentError as error:
        return HealthCheck(subject="model", words=str(error), status="FAIL", fix=error.hint)


def _check_state() -> HealthCheck:
    try:
        sessions = locate_sessions()
        sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=sessions, buffering=0) as file:
            file.write(b"\n")
            return HealthCheck(subject="sessions", words=f"stored in {sessions}")
    except (AgentError, OSError) as error:
        fix = "export XDG_STATE_HOME=/a/writable/directory"
        return HealthCheck(subject="sessions", words=str(error), status="FAIL", fix=fix)


def _check_settings_file(fault: SettingsError | None) -> HealthCheck:
    if fault is not None:
        return HealthCheck(subject="settings", words=str(fault), status="FAIL", fix=fault.hint)
    path = get_user_directory() / SETTINGS_FILE
    return HealthCheck(subject="settings", words=str(path) if path.exists() else f"none ({path})")


def _check_managed() -> Iterator[HealthCheck]:
    """Yield the policy of this machine, if there is one."""
    try:
        if words := describe_managed():
            yield HealthCheck(subject="policy", words=f"managed by {words}")
    except AgentError as error:
        yield HealthCheck(subject="policy", words=str(error), status="FAIL", fix=error.hint)


def _check_configuration(settings: Settings) -> Iterator[HealthCheck]:
    """Yield the findings about all that a run loads, each file once."""
    found = [_check_rules(), _check_hooks(), _check_project(settings), _check_tools(settings)]
    yield from found
    try:
        load_configuration(settings, uses_hooks=True)
    except AgentError as error:
        if str(error) not in [one.words for one in found]:
            yield HealthCheck(subject="setup", words=str(error), status="FAIL", fix=error.hint)


def _check_rules() -> HealthCheck:
    path = get_user_directory() / RULES_FILE
    try:
        rules = load_rules(path, source="user")
    except AgentError as error:
        return HealthCheck(subject="rules", words=str(error), status="FAIL", fix=error.hint)
    return HealthCheck(
        subject="rules", words=f"{len(rules)} in {path}" if rules else f"none ({path})"
    )


def _check_tools(settings: Settings) -> HealthCheck:
    """Return the tools of servers and of the user, as far as they are known."""
    try:
        specs, problems = list_foreign_tools(settings, _load_project(settings))
    except AgentError as error:
        return HealthCheck(subject="tools", words=str(error), status="FAIL", fix=error.hint)
    words = f"{len(specs)} besides the built-in ones"
    if problems:
        return HealthCheck(subject="tools", words="; ".join((words, *problems)), status="warn")
    return HealthCheck(subject="tools", words=words)


def _check_hooks() -> HealthCheck:
    path = get_user_directory() / HOOKS_FILE
    try:
        found = read_user_hooks(path)
    except AgentError as error:
        return HealthCheck(subject="hooks", words=str(error), status="FAIL", fix=error.hint)
    if found is None or not (found.hooks or found.warnings):
        return HealthCheck(subject="hooks", words=f"none ({path})")
    words = "; ".join((f"{len(found.hooks)} in {path}", *found.warnings))
    if found.warnings:
        return HealthCheck(subject="hooks", words=words, status="warn", fix=f"edit {path}")
    return HealthCheck(subject="hooks", words=words)


def _load_project(settings: Settings) -> Project | None:
    return load_project(settings.workspace, trust_project=settings.trust_project)


def _check_project(settings: Settings) -> HealthCheck:
    try:
        project = _load_project(settings)
        apply_project(settings, project)
        load_project_rules(project, settings.workspace)
        load_project_hooks(project)
    except AgentError as error:
        return HealthCheck(subject="project", words=str(error), status="FAIL", fix=error.hint)
    if project is None:
        return HealthCheck(subject="project", words=f"no {OWN_FOLDER} directory")
    if project.warning:
        return HealthCheck(subject="project", words=project.warning, status="warn")
    return HealthCheck(subject="project", words=f"{project.files.directory} is loaded")


def _check_program(
    name: str, path: str | None, *, without: str, fix: str, needed: bool
) -> HealthCheck:
    if path:
        return HealthCheck(subject=name, words=path)
    status: Literal["FAIL", "warn"] = "FAIL" if needed else "warn"
    return HealthCheck(subject=name, words=f"not found: {without}", status=status, fix=fix)


def _check_sandbox(settings: Settings) -> HealthCheck:
    """Return what commands of this workspace run in, why, and whether there is something better."""
    try:
        found = _describe_layers(settings)
    except AgentError as error:
        return HealthCheck(subject="sandbox", words=str(error), status="warn", fix=error.hint)
    wanted = [one for one in found if settings.sandbox in ("auto", one.layer)]
    used = next((one for one in wanted if one.works), None)
    words = (
        _describe_used_layer(settings, used)
        if used or settings.sandbox == "off"
        else _describe_no_layer(settings, wanted)
    )
    better = found[: found.index(used)] if used else found
    if best := next((one for one in better if one.works), None):
        words += f" {best.layer} works here{' and is stronger' if used else ''}."
        path = get_user_directory() / SETTINGS_FILE
        fix = f"agentcli --sandbox {best.layer}, or set sandbox in {path}"
        return HealthCheck(subject="sandbox", words=words, status="warn", fix=fix)
    if used and better:
        words += f" Stronger would be {better[0].layer}: {better[0].reason}"
    fix = next((one.fix for one in better if one.fix), "")
    is_well = used is not None and not fix
    return HealthCheck(subject="sandbox", words=words, status="ok" if is_well else "warn", fix=fix)


_LARGE_BYTES = 5 * 1024**3


def _check_caches(settings: Settings) -> HealthCheck:
    """Return where commands of this workspace have their home, and how large it is."""
    try:
        stored = find_home(find_homes_directory(locate_sessions()), settings.workspace)
    except AgentError:
        stored = None  # the check of the sessions says why
    if stored is None:
        return HealthCheck(subject="caches", words="none yet for commands of this workspace")
    size_bytes = stored.measure_bytes()
    words = f"{format_bytes(size_bytes)} in the home of this workspace's commands ({stored.path})"
    if size_bytes > _LARGE_BYTES:
        fix = "agentcli caches clear"
        return HealthCheck(subject="caches", words=words, status="warn", fix=fix)
    return HealthCheck(subject="caches", words=words)


def _describe_layers(settings: Settings) -> tuple[Layer, ...]:
    with tempfile.TemporaryDirectory(prefix="agentcli-doctor-") as private:
        return describe_layers(SandboxScope(workspace=settings.workspace, private=Path(private)))


def _describe_used_layer(settings: Settings, used: Layer | None) -> str:
    if used is None:
        return "off, as requested: commands run with your permissions."
    why = "the strongest that works here" if settings.sandbox == "auto" else "as requested"
    gaps = f" Not covered: {' '.join(used.gaps)}" if used.gaps else ""
    return f"{used.layer}, {why}.{gaps}"


def _describe_no_layer(settings: Settings, candidates: Sequence[Layer]) -> str:
    reasons = " ".join(one.reason for one in candidates)
    if not candidates and settings.sandbox == "auto":
        reasons = "There is no sandbox for this system."
    elif not candidates:
        reasons = f"{settings.sandbox} does not exist on this system."
    return f"no sandbox works: every command needs your approval. {reasons}"


def _check_workspace(settings: Settings) -> HealthCheck:
    try:
        with tempfile.TemporaryFile(dir=settings.workspace):
            return HealthCheck(subject="workspace", words=str(settings.workspace))
    except OSError as error:
        found = explain_unwritable_workspace(error, settings.workspace) or Remedy(str(error))
        return HealthCheck(subject="workspace", words=found.reason, status="warn", fix=found.fix)


def _check_ripgrep(settings: Settings) -> HealthCheck:
    path = find_ripgrep(settings.workspace)
    if path is not None:
        return HealthCheck(subject="ripgrep", words=str(path))
    return HealthCheck(
        subject="ripgrep",
        words="not found: grep and find_files need it",
        status="FAIL",
        fix=build_install_command(PACKAGE),
    )


def _check_extras() -> HealthCheck:
    installed = list_installed_extras()
    missing = ", ".join(name for name in read_extras() if name not in installed)
    words = ", ".join(installed) or "none"
    return HealthCheck(
        subject="extras", words=f"{words}; not installed: {missing}" if missing else words
    )


def _check_terminal() -> HealthCheck:
    encoding = locale.getpreferredencoding(do_setlocale=False)
    if not sys.stdout.isatty():
        return HealthCheck(subject="terminal", words=f"none (output is redirected), {encoding}")
    size = shutil.get_terminal_size()
    kind = os.environ.get("TERM", "unknown")
    return HealthCheck(subject="terminal", words=f"{kind}, {size.columns}x{size.lines}, {encoding}")
