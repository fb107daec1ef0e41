"""One command of a run, with what a rule for it gives, and what the log says of it."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.confined import confined
from tests.support.program import agentcli, read_facts, script, session_log


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedRun:
    """Runs commands in one layer of the sandbox, for one user."""

    layer: str
    home: Path
    workspace: Path
    env: Mapping[str, str]

    def run(self, command: str, rule: str, *options: str) -> "GrantedFacts":
        """Run a command with what a rule for it gives, in a session of its own."""
        calls = [[{"bash": {"command": command}}]]
        return self.run_calls(calls, f'decision = "allow"\nrule = "bash"\n{rule}', *options)

    def run_calls(
        self, replies: Sequence[Sequence[Mapping[str, Any]]], rule: str, *options: str
    ) -> "GrantedFacts":
        """Run the calls of several replies, with one rule."""
        rules = self.home / ".config/agentcli/rules.toml"
        rules.parent.mkdir(parents=True, exist_ok=True)
        rules.write_text(f"[[rule]]\n{rule}\n")
        model = script(self.home / "script.json", [*({"calls": one} for one in replies), "Done."])
        shutil.rmtree(self.home / ".local/state/agentcli/sessions", ignore_errors=True)
        ran = agentcli(
            *("run", "-C", self.workspace, "--sandbox", self.layer, "--model", model),
            *("--on-deny", "ignore", *options, "x"),
            home=self.home,
            env=dict(self.env),
        )
        assert ran.code == 0, ran.err
        return GrantedFacts(session_log(self.home))


@dataclass(frozen=True, slots=True)
class GrantedFacts:
    log: Path

    def list_facts(self, kind: str) -> list[dict[str, Any]]:
        facts = read_facts(self.log)
        return [fact for fact in facts if fact["type"] == kind]

    @property
    def said(self) -> str:
        """What the model was told."""
        results = [fact["result"] for fact in self.list_facts("call_finished")]
        return "\n".join(block["text"] for one in results for block in one["content"])

    @property
    def asked(self) -> list[tuple[str, bool]]:
        """For which hosts git wanted credentials, and whether it got them."""
        asked = [one for one in self.list_facts("host_judged") if one.get("credential")]
        return [
            (f"{one['host']}:{one['port']}", one["verdict"]["decision"] == "allow") for one in asked
        ]

    @property
    def signed(self) -> list[tuple[str, str]]:
        """What the ssh agent was asked to sign, and the decision."""
        judged = self.list_facts("signature_judged")
        return [(one["purpose"], one["verdict"]["decision"]) for one in judged]

    def contains(self, text: str) -> bool:
        """Return whether any file of the session contains a text."""
        files = [path for path in self.log.parent.rglob("*") if path.is_file()]
        return any(text in path.read_text(errors="replace") for path in files)


def skip_without_hosts(layer: str, base: Path) -> None:
    """Skip a test where the layer does not work, or grants no single hosts."""
    with confined(layer, base) as made:
        listener = made.sandbox.listen()
        if listener is None:
            pytest.skip("this machine does not let us connect for commands: a named gap")
        listener.close()
