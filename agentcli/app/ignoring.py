"""Which files a checkpoint leaves out: git's ignore rules, read directory by directory."""

import os
from collections.abc import Sequence
from pathlib import Path

from agentcli.machine.home import config_home, home
from agentcli.tools.searching.ignore import (
    Rule,
    everywhere,
    excluded_by_git,
    inherited,
    rules_in,
    verdict,
)


class Ignoring:
    """The rules that hold in one directory, the least important first."""

    def __init__(self, directory: Path, rules: Sequence[Rule]) -> None:
        self._directory = directory
        self._rules = rules

    @classmethod
    def of_workspace(cls, workspace: Path) -> "Ignoring":
        above = inherited(workspace, workspace=workspace).rules
        return cls(workspace, (*everywhere(home(), config_home()), *above, *_own(workspace)))

    def leaves_out(self, name: bytes, *, is_dir: bool) -> bool:
        return bool(verdict(self._rules, name, is_dir=is_dir))

    def enter(self, name: bytes) -> "Ignoring":
        directory = self._directory / os.fsdecode(name)
        carried = [rest for rule in self._rules for rest in rule.within(name)]
        return Ignoring(directory, (*carried, *_own(directory)))


def _own(directory: Path) -> tuple[Rule, ...]:
    return (*excluded_by_git(directory), *rules_in(directory / ".gitignore"))
