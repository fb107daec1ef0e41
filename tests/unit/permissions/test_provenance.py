from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.policy import load_rules
from agentcli.permissions.provenance import NETWORK, OUTSIDE, OriginTracker
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.subject import SubjectFactory
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.tools import (
    Command,
    Details,
    Effect,
    FileView,
    Matches,
    Output,
    ToolResult,
)
from tests.unit.permissions.court import prepare

ROOT, OUT = Path("/w"), Path("/state/s1/out")


ONLINE = Grants(network=True)


def _provenance(*, is_confined: bool = True, facts: tuple[CallFinished, ...] = ()) -> OriginTracker:
    return OriginTracker(workspace=ROOT, own=[OUT], is_confined=lambda: is_confined, facts=facts)


def _origin(
    provenance: OriginTracker,
    details: Details | None = None,
    name: str = "bash",
    grants: Grants = NO_GRANTS,
) -> str:
    return provenance(replace(prepare(name), grants=grants), Output.of("x", details=details))


def _command(command: str, log: str = "/state/s1/out/1.log") -> Command:
    return Command(command=command, cwd="/w", exit_code=0, log_path=log)


@pytest.mark.parametrize(
    "command",
    [
        "curl -s x",
        "a=$(wget -qO- x)",
        "/usr/bin/curl x",
        "git clone x",
        "git -C a fetch",
        "gh pr view",
        "true; ssh host ls",
        "nc -l 1 | cat",
        "git -c a=b pull",
    ],
)
def test_command_that_fetches_brings_outside_text_where_nothing_stops_it(command: str) -> None:
    assert _origin(_provenance(is_confined=False), _command(command)) == NETWORK
    assert _origin(_provenance(), _command(command)) == ""


@pytest.mark.parametrize("command", ["ls", "git log", "cat curl.txt", "pytest test_ssh.py", "make"])
def test_other_commands_do_not(command: str) -> None:
    assert _origin(_provenance(is_confined=False), _command(command)) == ""


def test_command_with_the_network_always_does() -> None:
    assert _origin(_provenance(), _command("make"), grants=ONLINE) == NETWORK


@pytest.mark.parametrize(
    ("details", "origin"),
    [
        (FileView(path="a.py", media="text", size_bytes=1), ""),
        (FileView(path="/w/a.py", media="text", size_bytes=1), ""),
        (FileView(path="/state/s1/out/7.log", media="text", size_bytes=1), ""),
        (FileView(path="/usr/share/doc/x", media="text", size_bytes=1), OUTSIDE),
        (Matches(target="x", path=".", matches=1, files=1), ""),
        (Matches(target="x", path="/usr", matches=1, files=1), OUTSIDE),
        (None, ""),
    ],
)
def test_file_comes_from_where_it_lies(details: Details | None, origin: str) -> None:
    assert _origin(_provenance(), details, "read_file") == origin


def test_tools_of_servers_and_outputs_that_say_so_come_from_there() -> None:
    provenance = _provenance()
    assert not provenance.is_untrusted
    assert _origin(provenance, name="mcp__x__search") == "the MCP server x"
    assert provenance.is_untrusted

    said = Output(content=(), origin="a page")
    assert _provenance()(prepare("fetch"), said) == "a page"


def test_kept_output_of_such_a_command_is_outside_text_however_it_is_read() -> None:
    provenance = _provenance(is_confined=False)
    assert _origin(provenance, _command("curl x", "/state/s1/out/1.log")) == NETWORK
    log = FileView(path="/state/s1/out/1.log", media="text", size_bytes=1)
    other = FileView(path="/state/s1/out/2.log", media="text", size_bytes=1)
    found = Matches(target="x", path="/state/s1/out", matches=1, files=1)

    origins = [_origin(provenance, details, "read_file") for details in (log, other, found)]

    assert origins == [NETWORK, "", NETWORK]
    assert (
        _origin(provenance, _command("tail /state/s1/out/1.log", "/state/s1/out/3.log")) == NETWORK
    )


def test_command_moved_to_the_background_has_told_its_beginning() -> None:
    moved = Command(
        command="curl x",
        cwd="/w",
        log_path="/state/s1/out/1.log",
        background_pid=7,
        was_moved=True,
    )
    assert _origin(_provenance(is_confined=False), moved) == NETWORK


def test_command_in_the_background_has_told_nothing_yet() -> None:
    provenance = _provenance()
    started = Command(command="serve", cwd="/w", log_path="/state/s1/out/1.log", background_pid=7)

    assert _origin(provenance, started, grants=ONLINE) == ""
    assert not provenance.is_untrusted
    log = FileView(path="/state/s1/out/1.log", media="text", size_bytes=1)
    assert (_origin(provenance, log, "read_file"), provenance.is_untrusted) == (NETWORK, True)


def test_resumed_session_knows_what_it_was_told() -> None:
    result = ToolResult(
        call_id="1",
        name="bash",
        status="ok",
        content=(),
        details=_command("curl x", "/state/s1/out/1.log"),
        origin=NETWORK,
    )
    provenance = _provenance(facts=(CallFinished(result=result),))

    log = FileView(path="/state/s1/out/1.log", media="text", size_bytes=1)
    assert (provenance.is_untrusted, _origin(provenance, log, "read_file")) == (True, NETWORK)


def _decision(rules: str, tmp_path: Path, *, effect: Effect, is_untrusted: bool) -> str:
    file = tmp_path / "rules.toml"
    file.write_text(rules)
    root = tmp_path.resolve()
    decider = PolicyDecider(
        rules=load_rules(file, source="user"),
        find_conditions=lambda: CommandConditions(
            prover=ReadProver(
                workspace=root, resolve=lambda name: Path("/bin", name), cwd=lambda: root
            ),
            is_confined=True,
        ),
        is_untrusted=lambda: is_untrusted,
    )
    tool, args = ("bash", {"command": "make"}) if effect is Effect.EXECUTE else ("edit_file", {})
    subjects = SubjectFactory(workspace=root, cwd=lambda: root)
    subject = subjects.build(tool, {"path": "a", **args}, effect=effect)
    return decider.decide(subject, mode="auto").decision


@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_rule_can_hold_only_while_outside_text_is_there(decision: str, tmp_path: Path) -> None:
    rules = f'[[rule]]\ndecision = "{decision}"\nrule = "effect(execute)"\nwhen = "untrusted"\n'

    def now(*, effect: Effect = Effect.EXECUTE, is_untrusted: bool) -> str:
        return _decision(rules, tmp_path, effect=effect, is_untrusted=is_untrusted)

    assert now(is_untrusted=False) == "allow"
    assert now(is_untrusted=True) == decision
    assert now(effect=Effect.WRITE, is_untrusted=True) == "allow"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('decision = "allow"\nrule = "bash"\nwhen = "untrusted"', "cannot allow"),
        ('decision = "ask"\nrule = "bash"\nwhen = "sometimes"', "when must be always or untrusted"),
        ('decision = "ask"\nrule = "effect(fly)"', "write effect"),
        ('decision = "ask"\nrule = "effect"', "write effect"),
        ('decision = "allow"\nrule = "effect(write)"', "name its tool"),
        ('decision = "ask"\nrule = "effect(write)"\nmatch = ["a"]', "cannot have examples"),
    ],
)
def test_rule_about_effects_that_means_nothing_is_refused(
    fields: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(f"[[rule]]\n{fields}\n")

    with pytest.raises(SettingsError, match=message) as caught:
        load_rules(file, source="user")

    assert f"{file}:1: " in str(caught.value)


@pytest.mark.parametrize("decision", ["allow", "judge"])
def test_project_can_neither_allow_nor_have_a_model_allow(decision: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(f'[[rule]]\ndecision = "{decision}"\nrule = "bash"\n')

    with pytest.raises(SettingsError, match="a project may only add ask and deny rules"):
        load_rules(file, source="project")
