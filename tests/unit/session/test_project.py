from pathlib import Path

import pytest

from agentcli.session.project import apply_project, load_project, load_project_rules
from agentcli.system.agent_files import find_project_root
from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "demo").resolve()
    (root / ".agentcli").mkdir(parents=True)
    return root


@pytest.fixture
def own(root: Path) -> Settings:
    return Settings(workspace=root, model="opus", max_turns=50, max_cost=2.0, mode="auto-edit")


def _with(text: str, own: Settings) -> Settings:
    (own.workspace / ".agentcli/settings.toml").write_text(text)
    return apply_project(own, load_project(own.workspace, trust_project=True, environ={}))


def test_trusted_project_chooses_a_model_and_tightens_the_rest(own: Settings) -> None:
    made = _with('model = "haiku"\neffort = "low"\nmode = "ask"\nmax_turns = 9\ntimeout = 5\n', own)

    assert (made.model, made.effort, made.mode) == ("haiku", "low", "ask")
    assert (made.max_turns, made.timeout, made.max_cost) == (9, 5.0, 2.0)


def test_project_never_loosens(own: Settings) -> None:
    (own.workspace / ".git").mkdir()
    made = _with('mode = "auto-edit"\nmax_turns = 900\nmax_cost = 900\n', own)
    strict = Settings(workspace=own.workspace, mode="plan")

    assert (made.mode, made.max_turns, made.max_cost) == ("auto-edit", 50, 2.0)
    assert _with('mode = "auto-edit"\n', strict).mode == "plan"


def test_flags_and_environment_win_over_a_project(root: Path) -> None:
    own = Settings(workspace=root, mode="auto", explicit_keys=frozenset(["mode"]))

    assert _with('mode = "plan"\n', own).mode == "auto"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('effort = "low"\nsandbox = "off"\n', ":2: a project may not set sandbox"),
        ('\n[providers.openai]\nbase_url = "http://evil"\n', ":2: a project may not set providers"),
        ('transport = "sdk"\n', ":1: a project may not set transport"),
        ('"pass_env" = ["AWS_KEY"]\n', ":1: a project may not set pass_env"),
        ('allow = ["bash"]\n', ":1: a project may not set allow"),
        ('evaluator = "x"\n', ":1: a project may not set evaluator"),
        ('base_url = "http://evil"\n', ":1: a project may not set base_url"),
        ("[hooks]\nx = 1\n", ":1: a project may not set hooks"),
        ('mode = "auto"\n', ":1: a project may only tighten the mode"),
        ('mode = "yolo"\n', "mode must be one of"),
        ('model = "script/evil.json"\n', ":1: a project may not use a script"),
        ("max_turns = ", "is not valid TOML"),
        ("max_turns = 0", "max_turns must be"),
        ("a = " + "[" * 5000, "is not valid TOML"),
    ],
)
def test_setting_that_is_not_a_projects_is_refused_with_its_line(
    text: str, message: str, own: Settings
) -> None:
    with pytest.raises(SettingsError) as caught:
        _with(text, own)

    assert str(own.workspace / ".agentcli/settings.toml") in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.hint


def test_untrusted_settings_are_not_even_read(own: Settings) -> None:
    (own.workspace / ".agentcli/settings.toml").write_text("no TOML at all")

    assert apply_project(own, load_project(own.workspace, environ={})) == own


@pytest.mark.parametrize("name", ["", "/rules.toml"])
def test_rules_that_may_be_there_and_cannot_be_read_stop_everything(
    name: str, root: Path, tmp_path: Path
) -> None:
    place = root / f".agentcli{name}"
    if place.exists():
        place.rmdir()
    place.symlink_to(tmp_path)

    with pytest.raises(SettingsError, match=r"cannot read the rules of .*: .* is a link"):
        load_project_rules(load_project(root, environ={}))


def test_root_is_the_nearest_within_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "outer/repository/package/src"
    inner.mkdir(parents=True)
    package, repository, outer = inner.parents[:3]
    (outer / ".agentcli").mkdir()
    assert find_project_root(inner) is None

    (repository / ".git").mkdir()
    assert find_project_root(inner) is None
    (repository / ".agentcli").mkdir()
    assert find_project_root(inner) == repository
    (package / ".agentcli").mkdir()
    assert find_project_root(inner) == package
    (inner / ".git").touch()
    assert find_project_root(inner) is None
