"""The files a checkpoint leaves out: git's ignore rules, read directory by directory."""

import os
from collections.abc import Sequence
from pathlib import Path

from agentcli.system.home import config_home, home
from agentcli.tools.search.ignore import (
    IgnoreRule,
    inherit_rules,
    judge_path,
    read_git_excludes,
    read_global_rules,
    read_rules,
)


class IgnoreRules:
    """The rules that apply in one directory, the least important first."""

    def __init__(self, directory: Path, rules: Sequence[IgnoreRule]) -> None:
        self._directory = directory
        self._rules = rules

    @classmethod
    def for_workspace(cls, workspace: Path) -> "IgnoreRules":
        above = inherit_rules(workspace, workspace=workspace).rules
        return cls(
            workspace, (*read_global_rules(home(), config_home()), *above, *_read_rules(workspace))
        )

    def ignores(self, name: bytes, *, is_dir: bool) -> bool:
        return bool(judge_path(self._rules, name, is_dir=is_dir))

    def enter(self, name: bytes) -> "IgnoreRules":
        directory = self._directory / os.fsdecode(name)
        carried = [rest for rule in self._rules for rest in rule.within(name)]
        return IgnoreRules(directory, (*carried, *_read_rules(directory)))


def _read_rules(directory: Path) -> tuple[IgnoreRule, ...]:
    return (*read_git_excludes(directory), *read_rules(directory / ".gitignore"))
