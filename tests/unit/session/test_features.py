from importlib import import_module

import pytest

from agentcli.session.features import COMMANDS, SESSION_FEATURES


@pytest.mark.parametrize("name", SESSION_FEATURES)
def test_every_feature_of_a_session_can_be_built(name: str) -> None:
    module = import_module(SESSION_FEATURES[name].module)
    assert callable(module.build_session_feature)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name: str) -> None:
    entry = COMMANDS[name]
    assert hasattr(import_module(entry.module), entry.app)
