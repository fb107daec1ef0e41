import asyncio
import os
import shlex
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.agent.context_notes import describe_reach
from agentcli.permissions.granting import HostJudge, RunningCommand, SignatureJudge
from agentcli.permissions.policy import load_rules, parse_option_rules, store_rule
from agentcli.permissions.rules import PermissionRule, Source, parse_rule
from agentcli.session.configuration import Configuration
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.grants import NO_GRANTS, WITHOUT_SANDBOX, Grants
from agentcli.types.messages import Json
from agentcli.types.settings import Settings
from agentcli.types.verdicts import AskUser, SignatureRequest, Verdict
from tests.unit.permissions.court import NO, YES, YES_FOR_THE_SESSION, Court, Person, court_of

HOST = "docs.example.org"
NEEDS: list[Json] = [f"network:{HOST}"]
ONCE = replace(YES, lasts="once")
ALWAYS = replace(YES, lasts="always")


def load(tmp_path: Path, text: str, source: Source = "user") -> tuple[PermissionRule, ...]:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return load_rules(path, source=source)


def rule_with(tmp_path: Path, lines: str, rule: str = "bash(make:*)") -> PermissionRule:
    (found,) = load(tmp_path, f'[[rule]]\ndecision = "allow"\nrule = "{rule}"\n{lines}\n')
    return found


# Rules that give


def test_rule_gives_hosts_directories_credentials_and_no_sandbox(tmp_path: Path) -> None:
    lines = f"""network = ["{HOST}", "*.example.com", "python"]
writable = ["/srv/cache"]
readable = ["/srv/data"]
credentials = ["git", "gh"]
outside = true"""

    grants = rule_with(tmp_path, lines).grants

    assert grants.hosts[:2] == (HOST, "*.example.com")
    assert "pypi.org" in grants.hosts
    assert (grants.writable, grants.readable) == ((Path("/srv/cache"),), (Path("/srv/data"),))
    assert (grants.credentials, grants.outside) == (("git", "gh"), True)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('network = "docs.example.org"', "list of hosts"),
        ('network = ["*"]', "wildcard"),
        ('network = ["*.com"]', "too wide"),
        ('network = ["017700000001"]', "four decimal numbers"),
        ('network = ["a.example:99999"]', "port"),
        ('writable = ["cache"]', "absolute path"),
        ('readable = ["/"]', "not /"),
        ('credentials = ["aws"]', "there are git, gh, npm"),
        ('credentials = "git"', "list of strings"),
        ("outside = 1", "true or false"),
        ('nettwork = ["a.example"]', "Did you mean network"),
    ],
)
def test_grant_that_means_nothing_stops_the_program(lines: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        rule_with(tmp_path, lines)
    assert words in str(refused.value)
    assert "rules.toml:1" in str(refused.value)


def test_no_sandbox_is_only_given_to_a_command(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a rule for a command"):
        rule_with(tmp_path, "outside = true", rule="bash")


@pytest.mark.parametrize("field", ["network = true", 'network = ["a.example"]', "outside = true"])
@pytest.mark.parametrize("decision", ["allow", "ask"])
def test_project_grants_nothing(decision: str, field: str, tmp_path: Path) -> None:
    text = f'[[rule]]\ndecision = "{decision}"\nrule = "bash(make)"\n{field}\n'
    with pytest.raises(SettingsError, match="a project may"):
        load(tmp_path, text, source="project")
    with pytest.raises(SettingsError, match="a project may"):
        load(tmp_path, '[[rule]]\ndecision = "allow"\nrule = "network(a.example)"\n', "project")


def test_project_may_deny_a_host(tmp_path: Path) -> None:
    text = f'[[rule]]\ndecision = "deny"\nrule = "network({HOST})"\nmatch = ["{HOST}:8443"]\n'
    rules = load(tmp_path, text, source="project")

    denied = court_of(tmp_path, granting=rules).hear("bash", command="make", needs=NEEDS)

    assert (denied.decision, denied.by, denied.rule) == ("deny", "rule", f"deny network({HOST})")


@pytest.mark.parametrize("option", ["*", "*.org", "http://a.example", "0x7f000001", "a..b"])
def test_host_option_that_is_no_host_is_a_usage_error(option: str) -> None:
    with pytest.raises(UsageError, match="--network"):
        parse_option_rules(network=[option])


def test_stored_rule_gives_what_was_shown_and_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    grants = Grants(hosts=(HOST,), writable=(Path('/a "b'),), credentials=("git",))
    store_rule(path, "bash(make:*)")
    for _ in range(2):
        store_rule(path, "bash(make:*)", grants=grants)
    store_rule(path, "bash(make:*)", grants=Grants(hosts=(HOST,)))

    assert [rule.grants for rule in load_rules(path, source="user")] == [NO_GRANTS, grants]


# Requests of a model


def test_request_that_rules_grant_is_not_asked_about(tmp_path: Path) -> None:
    granting = (rule_with(tmp_path, f'network = ["{HOST}"]'),)
    allowed = court_of(tmp_path, granting=granting).hear("bash", command="make x", needs=NEEDS)

    assert (allowed.decision, allowed.by, allowed.grants.hosts) == ("allow", "rule", (HOST,))


def test_host_of_every_command_is_not_asked_about(tmp_path: Path) -> None:
    court = court_of(tmp_path, mode="auto", granting=parse_option_rules(network=[HOST]))

    allowed = court.hear("bash", command="make x", needs=[*NEEDS, "reason:docs"])

    assert (allowed.decision, allowed.grants) == ("allow", Grants(hosts=(HOST,)))
    assert court.hear("bash", command="ls").grants == Grants(hosts=(HOST,))


def test_question_carries_what_the_command_would_get_and_why(tmp_path: Path) -> None:
    person = Person([ONCE])
    court = court_of(tmp_path, mode="auto", person=person)

    allowed = court.hear("bash", command="make x", needs=[*NEEDS, "reason:to read the docs"])

    (question,) = person.questions
    assert question.verdict.grants == allowed.grants == Grants(hosts=(HOST,))
    assert question.wanted_for == "to read the docs"
    assert question.verdict.reason == f"it asks for network: {HOST}"
    assert question.suggestion.describe_rules() == (f"bash(make x:*) with network: {HOST}",)


def test_once_is_once(tmp_path: Path) -> None:
    person = Person([ONCE, NO])
    court = court_of(tmp_path, mode="auto", person=person)

    assert court.hear("bash", command="make x", needs=NEEDS).grants.hosts == (HOST,)
    assert court.hear("bash", command="make x").grants == NO_GRANTS
    refused = court.hear("bash", command="make x", needs=NEEDS)
    assert (refused.decision, refused.grants) == ("deny", NO_GRANTS)


@pytest.mark.parametrize(
    "command", ["make x", "echo $HOME > x", "ls /srv", "make x && touch y", "cd src && make x"]
)
def test_answer_for_the_session_is_not_asked_about_again(command: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    person = Person([YES_FOR_THE_SESSION])
    court = court_of(tmp_path, mode="ask", allow=("bash(touch:*)",), person=person)

    for _ in range(2):
        assert court.hear("bash", command=command, needs=NEEDS).grants.hosts == (HOST,)
    assert len(person.questions) == 1


@pytest.mark.parametrize("command", ["make x", "ls /srv", "make x && touch y", "git push origin"])
def test_rules_for_always_give_what_was_asked_for(command: str, tmp_path: Path) -> None:
    person = Person([ALWAYS])
    court_of(tmp_path, allow=("bash(touch:*)",), person=person).hear(
        "bash", command=command, needs=NEEDS
    )
    suggestion = person.questions[0].suggestion
    for rule in suggestion.rules:
        store_rule(tmp_path / "rules.toml", rule, grants=suggestion.grants)

    later = court_of(tmp_path, granting=load_rules(tmp_path / "rules.toml", source="user"))
    allowed = later.hear("bash", command=command, needs=NEEDS)

    assert (allowed.decision, allowed.grants.hosts) == ("allow", (HOST,))


def test_running_without_a_sandbox_lasts_for_the_exact_command_alone(tmp_path: Path) -> None:
    person = Person([YES_FOR_THE_SESSION, NO])
    court = court_of(tmp_path, mode="auto", person=person)

    first = court.hear("bash", command="docker compose up", needs=["outside"])
    assert first.grants == WITHOUT_SANDBOX
    assert court.hear("bash", command="docker compose up").grants == WITHOUT_SANDBOX
    assert court.hear("bash", command="docker compose up -d").grants == NO_GRANTS
    assert court.hear("bash", command="docker ps", needs=["outside"]).decision == "deny"

    single = person.questions[0]
    assert single.suggestion.rules == ("bash(docker compose up)",)
    assert "no sandbox" in single.suggestion.session


def test_line_of_several_commands_never_always_runs_without_a_sandbox(tmp_path: Path) -> None:
    person = Person([NO])
    court_of(tmp_path, person=person).hear("bash", command="cd x && make", needs=["outside"])

    assert person.questions[0].suggestion.rules == ()


@pytest.mark.parametrize(
    ("mode", "options"), [("auto", []), ("ask", ["--allow", "bash(make x:*)"])]
)
def test_run_is_told_the_options_that_would_permit_it(
    mode: str, options: list[str], tmp_path: Path
) -> None:
    def hear(**rules: tuple[str, ...]) -> Verdict:
        granting = parse_option_rules(network=rules.get("network", ()))
        court = court_of(
            tmp_path,
            mode="auto" if mode == "auto" else "ask",
            allow=rules.get("allow", ()),
            granting=granting,
        )
        return court.hear("bash", command="make x", needs=NEEDS)

    denied = hear()
    assert (denied.decision, denied.by, denied.grants) == ("deny", "nobody", NO_GRANTS)
    words = shlex.split(denied.remedy)
    assert words == [*options, "--network", HOST]
    allowed = hear(allow=tuple(options[1::2]), network=(HOST,))
    assert (allowed.decision, allowed.grants.hosts) == ("allow", (HOST,))


def test_request_for_sockets_is_refused_without_a_question(tmp_path: Path) -> None:
    at = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(at))
        for entry, why in ((f"read:{at}", "it is a socket"), ("write:/var", "sockets of your")):
            court = court_of(tmp_path / "work", mode="auto", person=Person([]))
            denied = court.hear("bash", command="make", needs=[entry])
            assert (denied.decision, denied.by) == ("deny", "rule")
            assert why in denied.reason


def test_run_is_told_what_only_a_rule_can_give(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    court = court_of(tmp_path / "work", mode="auto")

    denied = court.hear("bash", command="make", needs=[f"write:{data}", "outside"])

    assert denied.remedy == "--policy FILE"
    given = f'bash(make) with writable = ["{data}"], outside = true'
    assert denied.reason.endswith(f"only a rule can give that: {given}")


def test_rule_that_asks_leaves_it_to_the_answer_to_give(tmp_path: Path) -> None:
    granting = (rule_with(tmp_path, f'network = ["{HOST}"]'),)
    court = court_of(tmp_path, granting=granting, ask=("bash(make:*)",), person=Person([ONCE]))

    assert court.hear("bash", command="make", needs=NEEDS).grants.hosts == (HOST,)


# Requests that nobody is asked about


@pytest.mark.parametrize("kind", ["read", "write"])
def test_path_that_does_not_exist_is_refused(kind: str, tmp_path: Path) -> None:
    refused = _refuse(tmp_path, f"{kind}:{tmp_path}/gone")
    assert "no such file or directory" in refused.reason


def test_keys_and_their_directories_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / "ok").mkdir()
    (home / "ok/link").symlink_to(home / ".ssh")
    (home / ".bashrc").touch()
    monkeypatch.setenv("HOME", str(home))

    for entry in ("read:~/.ssh", "write:~/.ssh", "read:~", f"read:{tmp_path}", "read:~/ok/link"):
        assert _refuse(tmp_path, entry).by == "rule", entry
    assert "runs at login" in _refuse(tmp_path, "write:~/.bashrc").reason
    person = Person([ONCE])
    allowed = court_of(tmp_path / "work", person=person).hear(
        "bash", command="make", needs=["write:~/ok", "read:~/.bashrc"]
    )
    assert allowed.grants.writable == (home / "ok",)


def test_own_directories_are_refused(tmp_path: Path) -> None:
    own = tmp_path / "config/agentcli"
    own.mkdir(parents=True)
    for path in (own, own.parent):
        refused = _refuse(tmp_path, f"write:{path}", own=(own,))
        assert "settings or records" in refused.reason


def test_settings_of_git_in_another_directory_are_refused(tmp_path: Path) -> None:
    hooks = tmp_path / "library/.git/hooks"
    hooks.mkdir(parents=True)
    for path in (hooks, hooks.parent):
        assert "belongs to git" in _refuse(tmp_path, f"write:{path}").reason
    person = Person([ONCE])
    court = court_of(tmp_path / "work", person=person)
    assert court.hear("bash", command="make", needs=[f"read:{hooks}"]).grants.readable == (hooks,)


def test_question_shows_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    person = Person([ONCE])

    court_of(tmp_path / "work", person=person).hear(
        "bash", command="make", needs=[f"write:{tmp_path}/link"]
    )

    assert person.questions[0].verdict.grants.writable == (tmp_path / "real",)


def _refuse(tmp_path: Path, entry: str, own: tuple[Path, ...] = ()) -> Verdict:
    (tmp_path / "work").mkdir(exist_ok=True)
    person = Person([])
    court = court_of(tmp_path / "work", mode="auto", person=person, own=own)
    refused = court.hear("bash", command="make", needs=[entry])
    assert refused.decision == "deny"
    assert person.questions == []
    return refused


@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_whole_network_is_not_given_beside_a_rule_that_could_not_be_kept(
    decision: str, tmp_path: Path
) -> None:
    strict = ("network(bad.example)",)
    court = court_of(
        tmp_path,
        granting=(rule_with(tmp_path, "network = true"),),
        ask=strict if decision == "ask" else (),
        deny=strict if decision == "deny" else (),
    )

    assert court.hear("bash", command="make x").grants == NO_GRANTS
    refused = court.hear("bash", command="make x", needs=["network:all"])
    assert (refused.decision, "by name" in refused.reason) == ("deny", True)


def test_rule_against_the_network_holds_for_requests(tmp_path: Path) -> None:
    court = court_of(tmp_path, mode="auto", deny=("effect(network)",))

    assert court.hear("bash", command="make").decision == "allow"
    assert court.hear("bash", command="make", needs=NEEDS).decision == "deny"


@pytest.mark.parametrize("is_confined", [True, False])
def test_without_a_sandbox_every_command_is_said_to_have_none(
    is_confined: bool, tmp_path: Path
) -> None:
    court = court_of(
        tmp_path, mode="auto", is_confined=is_confined, has_sandbox=False, person=Person([ONCE])
    )
    assert court.hear("bash", command="make", needs=NEEDS).grants == WITHOUT_SANDBOX


# Hosts that a running command reaches for


def host_judge(court: Court, person: AskUser | None) -> HostJudge:
    decider = court.decider
    return HostJudge(
        decide=decider.decide_host,
        add_rule=decider.add,
        ask_user=person,
        find_command=lambda call_id: RunningCommand(command=f"make {call_id}"),
    )


def reach(judge: HostJudge, call_id: str, host: str, port: int = 443, **grants: str) -> Verdict:
    given = Grants(hosts=tuple(grants.values()))
    return asyncio.run(judge(call_id, host, port, given))


def test_host_of_a_denying_rule_is_denied_whatever_was_granted(tmp_path: Path) -> None:
    court = court_of(tmp_path, deny=("network(*.example.org)",), allow=(f"network({HOST})",))
    denied = reach(host_judge(court, Person([])), "c1", HOST, 8443, given=f"{HOST}:8443")
    assert (denied.decision, denied.by) == ("deny", "rule")


def test_granted_host_is_allowed_and_no_other(tmp_path: Path) -> None:
    judge = host_judge(court_of(tmp_path), None)
    assert reach(judge, "c1", HOST, given=HOST).decision == "allow"
    assert reach(judge, "c1", HOST, 8080, given=HOST).decision == "deny"
    other = reach(judge, "c1", "other.example", given=HOST)
    assert (other.decision, other.by, other.remedy) == ("deny", "nobody", "--network other.example")
    assert reach(judge, "c1", "other.example", 81).remedy == "--network other.example:81"


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "a..b", "%61.example", "*"])
def test_host_in_disguise_is_denied(host: str, tmp_path: Path) -> None:
    assert reach(host_judge(court_of(tmp_path), Person([])), "c1", host).decision == "deny"


def test_answer_once_is_not_kept_for_another_command_even_with_the_same_id(tmp_path: Path) -> None:
    person = Person([ONCE, NO, NO])
    judge = host_judge(court_of(tmp_path), person)
    decisions = [reach(judge, call_id, HOST).decision for call_id in ("c1", "c1", "c2")]
    assert decisions == ["allow", "deny", "deny"]
    first = person.questions[0]
    assert first.call.input == {"host": f"{HOST}:443", "command": "make c1"}
    assert first.suggestion.rules == (f"network({HOST})",)


def test_denial_for_the_session_holds_for_every_command(tmp_path: Path) -> None:
    person = Person([replace(NO, lasts="session"), NO])
    judge = host_judge(court_of(tmp_path), person)
    hosts = (HOST, HOST, "other.example")
    assert [reach(judge, "c1", host).decision for host in hosts] == ["deny"] * 3
    assert len(person.questions) == 2


def test_answer_for_the_session_holds_for_every_command(tmp_path: Path) -> None:
    person = Person([YES_FOR_THE_SESSION])
    court = court_of(tmp_path, mode="auto", person=person)
    judge = host_judge(court, person)

    assert reach(judge, "c1", HOST).decision == "allow"
    assert court.hear("bash", command="make").grants.hosts == (HOST,)
    assert court.hear("bash", command="make", needs=NEEDS).decision == "allow"


def test_rule_that_asks_is_asked_for_each_command_unless_the_user_just_gave_it(
    tmp_path: Path,
) -> None:
    person = Person([ONCE])
    court = court_of(
        tmp_path, ask=(f"network({HOST})",), allow=("network(*.example.org)",), person=person
    )
    judge = host_judge(court, person)

    assert reach(judge, "c1", HOST, given="*.example.org").decision == "allow"
    assert person.questions[0].suggestion.rules == ()
    assert reach(judge, "c2", HOST, given=HOST).decision == "allow"
    assert len(person.questions) == 1


def test_preset_is_a_rule_for_its_hosts(tmp_path: Path) -> None:
    rule = parse_rule("network(python)", "allow", source="user")
    judge = host_judge(court_of(tmp_path, granting=(rule,)), None)
    assert {reach(judge, "c", host).decision for host in rule.hosts} == {"allow"}


# Signatures of the user's ssh agent


PUSH = SignatureRequest(key="ssh-ed25519 SHA256:x", purpose="log in as git at a", is_expected=True)
ODD = replace(PUSH, purpose="sign data for git", is_expected=False)


def sign(person: Person | None, *requests: SignatureRequest) -> list[Verdict]:
    async def main() -> list[Verdict]:
        judge = SignatureJudge(
            ask_user=person, find_command=lambda call_id: RunningCommand(command="git push")
        )
        return [await judge("c1", one) for one in requests]

    return asyncio.run(main())


def test_each_signature_is_a_question_with_key_purpose_and_command() -> None:
    person = Person([ONCE, NO])
    assert [one.decision for one in sign(person, PUSH, PUSH)] == ["allow", "deny"]
    question = person.questions[0]
    assert question.call.name == "ssh-agent"
    assert question.call.input == {"sign": PUSH.purpose, "key": PUSH.key, "command": "git push"}
    assert question.suggestion.rules == ()


def test_signature_approved_for_the_session_is_asked_about_once_and_another_again() -> None:
    person = Person([YES_FOR_THE_SESSION, NO])
    decisions = [one.decision for one in sign(person, PUSH, PUSH, ODD)]
    assert decisions == ["allow", "allow", "deny"]
    assert len(person.questions) == 2


def test_signature_denied_for_the_session_is_asked_about_once() -> None:
    person = Person([replace(NO, lasts="session")])
    assert [one.decision for one in sign(person, PUSH, PUSH)] == ["deny", "deny"]


def test_signature_approved_for_the_turn_is_asked_about_again_after_it() -> None:
    async def main() -> list[str]:
        person = Person([replace(YES, lasts="turn"), YES_FOR_THE_SESSION])
        judge = SignatureJudge(
            ask_user=person, find_command=lambda call_id: RunningCommand(command="git push")
        )
        asked = []
        for _ in range(3):
            await judge("c1", PUSH)
            again = await judge("c1", PUSH)
            asked.append(f"{len(person.questions)} {again.reason}")
            judge.drop("turn")
        return asked

    assert asyncio.run(main()) == [
        "1 the user approved it for this turn",
        "2 the user approved it for this session",
        "2 the user approved it for this session",
    ]


def test_run_gives_the_logins_that_the_grant_is_meant_for() -> None:
    given, refused = sign(None, PUSH, ODD)
    assert (given.decision, given.by) == ("allow", "rule")
    assert (refused.decision, refused.by) == ("deny", "nobody")


def test_environment_note_has_the_hosts_that_rules_give_to_every_command() -> None:
    rules = (
        parse_rule("network(*.example.org)", "allow", source="user"),
        parse_rule("network(other.example)", "allow", source="command line"),
        parse_rule("network(other.example)", "deny", source="project"),
        parse_rule("bash(make:*)", "allow", source="user"),
    )
    settings = Settings(workspace=Path())
    hosts = Configuration(settings=settings, rules=rules).granted_hosts
    assert hosts == ("*.example.org",)
    assert "network *.example.org;" in describe_reach(hosts, has_sandbox=True)
    assert Configuration(settings=settings, rules=rules[3:]).granted_hosts == ()
