import os
import socket
from pathlib import Path

from agentcli.sandbox.paths import SandboxScope, survey_paths
from agentcli.sandbox.seatbelt import SeatbeltSandbox, build_profile, build_reading_prefix
from agentcli.types.grants import Grants


def rules(network: bool = False) -> tuple[str, dict[str, str]]:
    return build_profile(
        read=[Path("/usr")],
        change=[Path('/ws") (allow default')],
        hide=[Path("/ws/.ssh")],
        guard=[Path("/ws/.git/hooks")],
        pinned=[Path("/ws/.git")],
        network=network,
    )


def test_everything_is_denied_first() -> None:
    text, _ = rules()
    assert text.splitlines()[:2] == ["(version 1)", "(deny default)"]


def test_paths_are_parameters_and_never_part_of_the_rules() -> None:
    text, parameters = rules()
    assert parameters == {
        "READ_0": "/usr",
        "CHANGE_0": '/ws") (allow default',
        "HIDE_0": "/ws/.ssh",
        "GUARD_0": "/ws/.git/hooks",
        "PIN_0": "/ws/.git",
    }
    assert "/ws" not in text and text.count("(") == text.count(")")


def test_guarded_places_come_after_what_allows_writing() -> None:
    text, _ = rules()
    assert text.splitlines()[-5:] == [
        '(allow file-read* (subpath (param "READ_0")))',
        '(allow file-read* file-write* (subpath (param "CHANGE_0")))',
        '(deny file-read* file-write* (subpath (param "HIDE_0")))',
        '(deny file-write* (subpath (param "GUARD_0")))',
        '(deny file-write-unlink (literal (param "PIN_0")))',
    ]


def test_network_is_denied_unless_granted() -> None:
    assert "(deny network*)" in rules()[0]
    assert "(allow network*)" in rules(network=True)[0]


def test_only_the_port_of_the_proxy_is_open_without_the_network(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    scope = SandboxScope(workspace=tmp_path / "ws", private=tmp_path / "private")
    sandbox = SeatbeltSandbox(survey_paths(scope, {"HOME": str(tmp_path)}))
    granted = Grants(hosts=("docs.example.org",))
    assert "network-outbound" not in sandbox.build_prefix(granted)[2]
    with sandbox.listen() as listener:
        port = listener.getsockname()[1]
        rule = f'(deny network*)\n(allow network-outbound (remote ip "localhost:{port}"))\n'
        assert rule in sandbox.build_prefix(granted)[2]
        assert rule in sandbox.build_prefix(Grants())[2]
        assert "network-outbound" not in sandbox.build_prefix(Grants(network=True))[2]


def test_command_line_defines_every_parameter(tmp_path: Path) -> None:
    (tmp_path / "ws/.git").mkdir(parents=True)
    places = survey_paths(
        SandboxScope(
            workspace=tmp_path / "ws", private=tmp_path / "private", readable=(tmp_path / "kept",)
        ),
        {"HOME": str(tmp_path / "home")},
    )
    words = SeatbeltSandbox(places).build_prefix(Grants(writable=(tmp_path,)))
    assert words[:2] == ["/usr/bin/sandbox-exec", "-p"]
    defined = dict(word.split("=", 1) for word in words[4::2])
    assert set(words[3::2]) == {"-D"}
    assert all(f'"{name}"' in words[2] for name in defined)
    assert {str(tmp_path / "ws"), str(tmp_path / "ws/.agentcli"), str(tmp_path)} <= set(
        defined.values()
    )


def test_profile_gives_what_the_grants_say(tmp_path: Path) -> None:
    workspace, write, read = (tmp_path / name for name in ("ws", "write", "read"))
    for directory in (workspace, read, write / ".git/hooks"):
        directory.mkdir(parents=True)
    scope = SandboxScope(workspace=workspace, private=tmp_path / "private")
    sandbox = SeatbeltSandbox(survey_paths(scope, {"HOME": str(tmp_path / "home")}))

    def list_values(kind: str, grants: Grants) -> set[str]:
        words = sandbox.build_prefix(grants)[4::2]
        return {word.partition("=")[2] for word in words if word.startswith(f"{kind}_")}

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(read / "s"))
        granted = Grants(writable=(write,), readable=(read,))
        for kind, path in (
            ("CHANGE", write),
            ("GUARD", write / ".git/hooks"),
            ("PIN", write / ".git"),
            ("READ", read),
            ("HIDE", read / "s"),
        ):
            assert str(path) in list_values(kind, granted)
            assert str(path) not in list_values(kind, Grants())
        assert str(read) not in list_values("CHANGE", granted)


def test_program_that_only_reads_may_change_nothing() -> None:
    program, option, text, *words = build_reading_prefix([Path("/ws")])
    assert (program, option) == ("/usr/bin/sandbox-exec", "-p")
    assert "CHANGE" not in text and "(deny network*)" in text
    assert words[-1].endswith("=/ws") and "READ_0=/usr" in words
    assert not [word for word in words if word.endswith("=/private/etc")]
