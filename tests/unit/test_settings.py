import errno
import os
from pathlib import Path
from typing import Any, get_args

import pytest

import agentcli
from agentcli.permissions.policy import load_rules
from agentcli.providers.openai.chat_quirks import QUIRKS
from agentcli.session.configuration import read_user_hooks
from agentcli.settings import build_unreadable_error, load_settings, select_settings
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.settings import CustomProvider, SandboxChoice


def write(home: Path, text: str) -> dict[str, str]:
    file = home / "agentcli/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return {"XDG_CONFIG_HOME": str(home)}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_providers_of_the_file_are_read(home: Path) -> None:
    write(home, '[providers.lab]\nprotocol = "openai-chat"\nbase_url = "http://x"\n')
    assert load_settings({}, workspace=home, environ={}).providers == (
        CustomProvider(name="lab", protocol="openai-chat", base_url="http://x"),
    )


def test_byte_order_mark_of_an_editor_is_no_part_of_a_file(home: Path) -> None:
    write(home, '\ufeffmode = "plan"\n')
    assert load_settings({}, workspace=home, environ={}).mode == "plan"
    (home / "rules.toml").write_text('\ufeff[[rule]]\ndecision = "deny"\nrule = "bash(rm:*)"\n')
    assert [rule.text for rule in load_rules(home / "rules.toml", source="user")] == ["bash(rm:*)"]
    (home / "hooks.json").write_text('\ufeff{"hooks": {}}')
    assert read_user_hooks(home / "hooks.json") is not None


def test_every_quirk_of_a_server_can_be_set(home: Path) -> None:
    lab = '[providers.lab]\nprotocol = "openai-chat"\nbase_url = "http://x"\n'
    write(home, f"{lab}quirks = {sorted(QUIRKS)}\n")
    (provider,) = load_settings({}, workspace=home, environ={}).providers
    assert set(provider.quirks) == QUIRKS


@pytest.mark.parametrize(
    "text",
    [
        "providers = 1",
        "[providers]\nlab = 1",
        '[providers.lab]\nprotocol = "x"',
        '[providers.lab]\nprotocol = "x"\nbase_url = 7',
        *(
            f'[providers.lab]\nprotocol = "{protocol}"\nbase_url = "http://x"\nquirks = {quirks}'
            for protocol, quirks in [
                ("openai-chat", '"max_tokens"'),
                ("openai-chat", '["odd"]'),
                ("openai-chat", "[[]]"),
                ("openai-chat", "3"),
                ("anthropic", '["max_tokens"]'),
            ]
        ),
        'transport = "pigeon"',
        "max_wait = -1",
        "store = 2",
        "max_turns = 1.5",
        'max_turns = "5"',
        'max_cost = "2"',
        'strict_cost = "true"',
        "timeout = true",
        f"max_cost = 1{'0' * 400}",
        f"timeout = 1{'0' * 400}",
        'effort = "hihg"',
    ],
)
def test_wrong_value_is_refused_with_what_would_be_right(home: Path, text: str) -> None:
    write(home, text)
    with pytest.raises(SettingsError, match="must be") as raised:
        load_settings({}, workspace=home, environ={})
    assert "settings.toml" in str(raised.value)
    assert raised.value.hint.startswith("edit /")


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.EISDIR, "rmdir"),
        (errno.ELOOP, "rm"),
        (errno.EIO, "ls -l"),
    ],
)
def test_file_that_cannot_be_read_has_a_hint_for_its_reason(code: int, hint: str) -> None:
    path = Path("/home/me/settings.toml")
    told = build_unreadable_error(path, OSError(code, os.strerror(code)))
    assert told.hint == f"{hint} {path}"


def test_only_the_owner_of_a_file_is_told_to_open_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = OSError(errno.EACCES, os.strerror(errno.EACCES))
    own = home / "settings.toml"
    own.touch()
    assert build_unreadable_error(own, refused).hint == f"chmod u+r {own}"
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    other = home / "closed/agentcli/settings.toml"
    assert build_unreadable_error(other, refused).hint == f"ls -ld {home / 'closed'}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "closed"))
    assert build_unreadable_error(other, refused).hint == "unset XDG_CONFIG_HOME"


def test_link_that_leads_to_itself_is_to_be_removed(home: Path) -> None:
    write(home, "")
    (file,) = home.rglob("settings.toml")
    file.unlink()
    file.symlink_to(file)
    with pytest.raises(SettingsError, match="Too many levels of symbolic links") as raised:
        load_settings({}, workspace=home, environ={})
    assert raised.value.hint == f"rm {file}"


def test_wrong_variable_is_named_by_its_hint(home: Path) -> None:
    with pytest.raises(SettingsError, match="must be") as raised:
        load_settings({}, workspace=home, environ={"AGENTCLI_MODE": "x"})
    assert raised.value.hint == "unset AGENTCLI_MODE"


@pytest.mark.parametrize(
    "flags", [{"mode": "yolo"}, {"max_turns": "0"}, {"max_turns": "x"}, {"model": " "}]
)
def test_hint_of_a_wrong_flag_names_its_command(home: Path, flags: dict[str, Any]) -> None:
    for command, hint in (("batch", "agentcli batch --help"), ("", "agentcli --help")):
        with pytest.raises(UsageError) as raised:
            load_settings(flags, workspace=home, environ={}, command=command)
        assert raised.value.hint == hint


@pytest.mark.parametrize(
    "flags", [{"mode": "yolo"}, {"max_turns": "0"}, {"max_turns": "x"}, {"model": " "}]
)
def test_wrong_flag_is_a_usage_error(home: Path, flags: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be"):
        load_settings(flags, workspace=home, environ={})


def test_environment_speaks_in_words(home: Path) -> None:
    environ = {"AGENTCLI_PARALLEL": "no", "AGENTCLI_MAX_TURNS": "7", "AGENTCLI_TIMEOUT": "1.5"}
    settings = load_settings({}, workspace=home, environ=environ)
    assert (settings.parallel, settings.max_turns, settings.timeout) == (False, 7, 1.5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1h0m2.5s", 3602.5), ("0.5", 0.5)],
)
def test_durations_are_written_as_people_write_them(
    text: str, seconds: float, tmp_path: Path
) -> None:
    assert load_settings({"timeout": text}, workspace=tmp_path, environ={}).timeout == seconds


@pytest.mark.parametrize("text", ["", "m", "5x", "-5s", "0", "0s", "1m1h", "inf", "nan", "1 h"])
def test_duration_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        load_settings({"timeout": text}, workspace=tmp_path, environ={})


def test_help_names_every_sandbox() -> None:
    page = Path(agentcli.__file__).with_name("cli") / "help/agentcli-run.txt"
    assert f"--sandbox {'|'.join(get_args(SandboxChoice))}\n" in page.read_text()


def test_options_named_like_settings_are_settings_but_for_checks_of_one_run() -> None:
    options = {"prompt": "go", "web": False, "strict_cost": True, "max_turns": "3", "effort": None}
    listed = {"network": ["a.example"], "allow": ["edit(*)"], "trust_project": False}
    assert select_settings({**options, **listed, "verify": ["make"]}) == {
        "web": None,
        "strict_cost": True,
        "max_turns": "3",
        "effort": None,
        "network": ["a.example"],
        "allow": ["edit(*)"],
        "trust_project": None,
    }


def test_option_network_adds_to_the_hosts_of_the_file(home: Path) -> None:
    write(home, 'network = ["a.example"]')
    settings = load_settings({"network": ["b.example"]}, workspace=home, environ={})
    assert settings.network == ("a.example", "b.example")
    assert "network" not in settings.explicit_keys


@pytest.mark.parametrize("name", ["allow", "deny", "policy", "pass_env", "mask", "add_dir"])
def test_option_of_one_run_is_no_key_of_the_file(name: str, home: Path) -> None:
    write(home, f'{name} = ["x"]')
    with pytest.raises(SettingsError, match=f"unknown setting '{name}'"):
        load_settings({}, workspace=home, environ={})


def test_added_directory_is_made_absolute_and_keeps_its_mode(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    settings = load_settings({"add_dir": ["notes:ro", "~"]}, workspace=home, environ={})
    assert settings.add_dir == (str(home / "notes:ro"), str(Path.home()))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("timeout", "1h30m", 5400.0),
        ("max_cost", "2.50", 2.5),
        ("command_memory", "4G", 4 * 1024**3),
        ("max_turns", "7", 7),
        ("web", "true", True),
        ("cache", "1h", "1h"),
        ("mcp_config", "servers.json", Path("servers.json")),
    ],
)
def test_setting_is_read_as_its_type_says(name: str, text: str, value: object, home: Path) -> None:
    settings = load_settings({}, workspace=home, environ={f"AGENTCLI_{name.upper()}": text})
    assert getattr(settings, name) == value
