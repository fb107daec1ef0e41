import pytest

from agentcli.providers.catalog import PROVIDERS
from agentcli.session.secrets import (
    build_redactor,
    drop_key,
    find_user_key,
    get_keys_file,
    list_stored_providers,
    read_stored_values,
    store_key,
)
from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings
from tests.support.desk import NOWHERE

pytestmark = pytest.mark.usefixtures("own_directories")


def test_stored_key_is_private_and_says_where_it_is() -> None:
    assert list_stored_providers() == []
    store_key("ANTHROPIC_API_KEY", "sk-ant-1")
    assert get_keys_file().stat().st_mode & 0o777 == 0o600
    found = find_user_key(PROVIDERS["anthropic"], {})
    assert found is not None
    assert (found.value, found.source) == ("sk-ant-1", str(get_keys_file()))
    assert found.fix == "agentcli login anthropic"


def test_variable_wins_over_a_stored_key() -> None:
    store_key("OPENAI_API_KEY", 'with "quotes"')
    found = find_user_key(PROVIDERS["openai"], {"OPENAI_API_KEY": "already there"})
    assert found is not None
    assert (found.source, found.fix) == ("OPENAI_API_KEY", "export OPENAI_API_KEY=…")
    assert list_stored_providers() == ["openai", "openai-chat"]


def test_second_variable_of_a_provider_is_found_too() -> None:
    store_key("GOOGLE_API_KEY", "AIza-1")
    found = find_user_key(PROVIDERS["gemini"], {})
    assert found is not None
    assert found.value == "AIza-1"


def test_dropped_key_is_gone_and_the_others_stay() -> None:
    store_key("ANTHROPIC_API_KEY", "sk-ant-1")
    store_key("OPENAI_API_KEY", "sk-1")
    assert drop_key("ANTHROPIC_API_KEY") == str(get_keys_file())
    assert drop_key("ANTHROPIC_API_KEY") == ""
    assert read_stored_values() == ["sk-1"]


def test_stored_keys_are_hidden_from_model_and_log() -> None:
    store_key("ANTHROPIC_API_KEY", "a-stored-key-of-no-known-shape")
    masked = build_redactor(Settings(workspace=NOWHERE)).mask(
        "it is a-stored-key-of-no-known-shape"
    )
    assert "a-stored-key" not in masked


def test_broken_file_of_keys_is_said() -> None:
    get_keys_file().parent.mkdir(parents=True)
    get_keys_file().write_text("not toml")
    with pytest.raises(SettingsError, match="cannot read"):
        read_stored_values()
