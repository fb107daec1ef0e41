"""Slash commands that hand the work over: a commit, and the text of a pull request.

A commit is made after the user's own yes, by a command in the sandbox: hooks of the repository run
there, too. A pull request is only written, never sent.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.system.files import store_private
from agentcli.system.git import run_git
from agentcli.types.errors import ProviderError, SettingsError, UsageError
from agentcli.types.events import Checkpointed, Fact, NoteReason, TurnStarted
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Text
from agentcli.types.words import pluralize
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments
from agentcli.ui.repl.picker import PickerRow

# What a commit takes in, and the draft of its message from the record


SUBJECT_CHARS = 72
FILES_SHOWN = 20
_FENCE = re.compile(r"\A```\w*\n(?P<inside>.*?)\n```\s*\Z", re.DOTALL)
_BASES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    paths: tuple[str, ...]
    """The files to commit, relative to the root of the repository."""
    is_staged: bool
    """True if the user staged them: then nothing else is added."""

    def describe(self) -> str:
        more = len(self.paths) - FILES_SHOWN
        shown = [*self.paths[:FILES_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        return "\n".join(f"  {path}" for path in shown)

    def build_command(self, message: str) -> str:
        """Return the command that commits these files and prints the new commit."""
        specs = " ".join(shlex.quote(f":(top,literal){path}") for path in self.paths)
        add = "" if self.is_staged else f"git add -A -- {specs} && "
        only = "" if self.is_staged else f" -- {specs}"
        return f"{add}git commit -q -m {shlex.quote(message)}{only} && git log -1 --format='%h %s'"


def plan_commit(workspace: Path, changed: Iterable[str]) -> CommitPlan:
    """Return what the user staged, or else what the session changed. Raise UsageError if nothing.

    `changed` are the files that the session changed, relative to the workspace."""
    try:
        status = run_git("status", "--porcelain=v1", "-z", "--untracked-files=all", cwd=workspace)
        prefix = run_git("rev-parse", "--show-prefix", cwd=workspace).strip()
    except SettingsError as error:
        raise UsageError(f"nothing can be committed: {error}", hint="git init") from None
    staged, dirty = _parse_status(status)
    if staged:
        return CommitPlan(paths=tuple(staged), is_staged=True)
    own = [path for one in dict.fromkeys(changed) if (path := f"{prefix}{one}") in dirty]
    if not own:
        raise UsageError(
            "this session changed nothing that is not committed",
            hint="stage the files with git add, then /commit",
        )
    return CommitPlan(paths=tuple(own), is_staged=False)


def _parse_status(status: str) -> tuple[list[str], set[str]]:
    """Return the staged files, and all that differ from the last commit."""
    staged: list[str] = []
    dirty: set[str] = set()
    entries = iter(status.split("\0"))
    for entry in entries:
        if not entry:
            continue
        kind, path = entry[:2], entry[3:]
        dirty.add(path)
        if kind[0] not in " ?!":
            staged.append(path)
        if "R" in kind or "C" in kind:
            next(entries, "")  # the old name
    return staged, dirty


def list_changed(facts: Iterable[Fact]) -> list[str]:
    """Return the files that the session changed, relative to the workspace."""
    stored = (fact for fact in facts if isinstance(fact, Checkpointed) and not fact.root)
    return [path for fact in stored for path in fact.paths]


def ask_for_message(plan: CommitPlan) -> str:
    """Return the question for a commit message."""
    return (
        "Write the message of a commit with exactly these files, from what was done and why:\n"
        f"{plan.describe()}\n"
        f"One line of at most {SUBJECT_CHARS} characters in the imperative, in the style of this "
        "repository. If the reason is not plain from it, add an empty line and a short body. "
        "Answer with the message alone."
    )


def ask_for_request(commits: str) -> str:
    """Return the question for the title and the text of a pull request."""
    return (
        f"Write a pull request for these commits:\n{commits}\n"
        f"First a line of at most {SUBJECT_CHARS} characters as its title, then an empty line, "
        "then what it does, why, and how it was checked. Say only what happened here. "
        "Answer with that alone."
    )


def tidy_message(answer: str) -> str:
    """Return an answer as a message, without a fence or quotes around it."""
    text = answer.strip()
    if found := _FENCE.match(text):
        text = found["inside"].strip()
    lines = [line.rstrip() for line in text.split("\n")]
    return "\n".join(lines).strip("`\"' \n")


def draft_from_record(facts: Sequence[Fact], plan: CommitPlan) -> str:
    """Return a plain message for when no model answers: the last prompt, and the files."""
    prompts = [fact.message for fact in facts if isinstance(fact, TurnStarted)]
    texts = [one.text for one in (prompts[-1].content if prompts else ()) if isinstance(one, Text)]
    words = " ".join(texts[0].split()) if texts else ""
    return f"{words[:SUBJECT_CHARS].strip() or 'Change files'}\n\n{plan.describe()}"


def list_commits(workspace: Path) -> str:
    """Return the commits of this branch beyond the main one. Raise UsageError if there is none."""
    for base in _BASES:
        try:
            run_git("rev-parse", "--verify", "--quiet", base, cwd=workspace)
            commits = run_git("log", "--format=- %s%n%w(0,2,2)%b", f"{base}..HEAD", cwd=workspace)
        except SettingsError:
            continue
        if commits.strip():
            return commits.strip()
        raise UsageError(f"this branch has no commit beyond {base}", hint="/commit")
    raise UsageError("there is no branch to compare with: no main, no origin", hint="/commit")


# The commands


COMMIT_S = 120.0
PR_FILE = "pull-request.md"


async def run_commit(host: CommandHost, rest: str) -> None:
    if host.is_busy:
        raise UsageError("a turn is running", hint="press Esc to stop it, then try again")
    session = host.session
    if not session.gate.host.may_run_commands:
        raise UsageError(
            "a commit runs in a sandbox, and none works here (see /doctor)", hint="!git commit"
        )
    plan = plan_commit(host.settings.workspace, list_changed(session.facts))
    message = rest or await _draft_message(host, plan)
    while True:
        host.say(f"{escape(message)}\n\n{escape(plan.describe())}")
        rows = [
            PickerRow(label="commit"),
            PickerRow(label="write another message"),
            PickerRow(label="do not commit"),
        ]
        match await host.choose(f"Commit {pluralize(len(plan.paths), 'file')}", rows):
            case 0:
                await _commit(host, plan, message=message)
                return
            case 1:
                message = await host.ask("Message:") or message
            case _:
                host.say("Nothing was committed.", "dim")
                return


async def _draft_message(host: CommandHost, plan: CommitPlan) -> str:
    asking = host.session.model_client.ask_aside(ask_for_message(plan))
    try:
        return tidy_message(await host.wait_for("Drafting", asking))
    except ProviderError as error:
        host.say(f"The model drafted nothing: {error}", "warning")
        return draft_from_record(host.session.facts, plan)


async def _commit(host: CommandHost, plan: CommitPlan, *, message: str) -> None:
    session, command = host.session, plan.build_command(message)
    running = session.builtin_tools.run_command(command, timeout_s=COMMIT_S)
    ran = await host.wait_for("Committing", running)
    if ran.exit_code != 0:
        host.say(escape(ran.output), "failed")
        raise UsageError("git did not commit", hint="fix what git says above, then /commit")
    made = ran.output.split("\n")[0]
    host.say(f"Committed {escape(made)}", "ok")
    session.add_note(
        f"[The user committed {pluralize(len(plan.paths), 'file')}: {made}]",
        reason=NoteReason.SHELL,
    )


async def run_pr(host: CommandHost, rest: str) -> None:
    if rest:
        raise WrongArguments
    commits = list_commits(host.settings.workspace)
    asking = host.session.model_client.ask_aside(ask_for_request(commits))
    drafted = tidy_message(await host.wait_for("Drafting", asking))
    title, _, body = drafted.partition("\n")
    path = host.session.paths.out / PR_FILE
    store_private(path, host.session.clean(f"{body.strip()}\n").encode("utf-8", "replace"))
    host.print(host.renderer.render_markdown(f"**{title.strip()}**\n\n{body.strip()}"))
    command = f"gh pr create --title {shlex.quote(title.strip())} --body-file {path}"
    host.say(f"Nothing was sent. To open it: {escape(command)}", "dim")
