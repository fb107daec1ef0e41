from pathlib import Path

import pytest

from agentcli.session.keys import export_keys, get_keys_file, store_key
from agentcli.types.errors import SettingsError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    return tmp_path


def test_stored_key_is_private_and_lent_to_the_environment() -> None:
    assert export_keys({}) == []
    store_key("ANTHROPIC_API_KEY", "sk-ant-1")
    store_key("OPENAI_API_KEY", 'with "quotes"')
    assert get_keys_file().stat().st_mode & 0o777 == 0o600
    environ = {"OPENAI_API_KEY": "already there"}
    assert export_keys(environ) == ["ANTHROPIC_API_KEY"]
    assert environ == {"OPENAI_API_KEY": "already there", "ANTHROPIC_API_KEY": "sk-ant-1"}


def test_broken_file_of_keys_is_said() -> None:
    get_keys_file().parent.mkdir(parents=True)
    get_keys_file().write_text("not toml")
    with pytest.raises(SettingsError, match="cannot read"):
        export_keys({})
