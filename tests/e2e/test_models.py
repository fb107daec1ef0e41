from pathlib import Path

import pytest

from tests.support.anthropic_streams import events, text, thinking
from tests.support.program import agentcli, session_log
from tests.support.provider import Provider, answer, sse, stream

KEYS = {"ANTHROPIC_API_KEY": "sk-test-0123456789"}
USAGE = {"input_tokens": 90_000, "output_tokens": 1}


@pytest.fixture
def talked(tmp_path: Path) -> Path:
    """A home with one session, in which a model thought before it spoke."""
    reply = stream(sse(events([thinking("Hm."), text("Hi.")], usage=USAGE)))
    with Provider([reply]) as provider:
        env = {**KEYS, "ANTHROPIC_BASE_URL": provider.base_url}
        assert agentcli("run", "--model", "opus", "Hello", home=tmp_path, env=env).code == 0
    return tmp_path


def test_models_can_be_listed_without_a_key(tmp_path: Path) -> None:
    ran = agentcli("models", home=tmp_path)
    assert ran.code == 0
    assert "--  anthropic/claude-opus-5-5" in ran.out
    assert "To add a key: agentcli login PROVIDER" in ran.out


def test_model_that_made_a_session_would_get_all_of_it(talked: Path) -> None:
    session = session_log(talked).parent.name
    ran = agentcli("models", "--check", session, "--model", "opus", home=talked)
    assert (ran.code, ran.out) == (
        0,
        "anthropic/claude-opus-5-5 would receive the whole conversation.\n"
        "The next prompt has about 90,034 tokens and fits into the 1,000,000 of the model. "
        "Sent without a cache, it costs about $0.3601.\n",
    )


def test_swap_to_a_smaller_model_is_told_beforehand(talked: Path) -> None:
    told = answer({"data": [{"id": "qwen", "max_model_len": 32_768}]})
    with Provider([told]) as provider:
        ran = agentcli(
            *("models", "--check", session_log(talked), "--model", "vllm/qwen"),
            home=talked,
            env={"VLLM_BASE_URL": provider.base_url},
        )
    assert (ran.code, ran.out) == (
        0,
        "vllm/qwen would not receive:\n"
        "  - 1 thinking block of another model, which qwen cannot read.\n"
        "The next prompt has about 90,034 tokens, more than the 32,768 of the model: "
        "use /compact first. Its price is unknown.\n",
    )


def test_session_that_is_not_there_is_told(tmp_path: Path) -> None:
    ran = agentcli("models", "--check", "nobody", "--model", "opus", home=tmp_path)
    assert ran.code == 3
    assert "no session 'nobody'" in ran.err
