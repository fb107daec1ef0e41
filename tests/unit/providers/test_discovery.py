import asyncio
from dataclasses import replace

import pytest

from agentcli.providers.anthropic import messages as anthropic
from agentcli.providers.catalog import LOCAL, PROVIDERS, Key
from agentcli.providers.discovery import discover, find_local_servers
from agentcli.providers.gemini import generate as gemini
from agentcli.providers.openai import chat as openai_chat
from agentcli.types.errors import ProviderError, ProviderErrorKind
from tests.support.provider import Provider, answer, page

KEY = Key(value="sk-test-0123456789", source="TEST")


def test_anthropic_tells_the_limits_of_its_models() -> None:
    listing = {
        "data": [
            {"id": "claude-opus-5-5", "max_input_tokens": 900_000, "max_tokens": 64_000},
            {"id": "claude-new-7", "max_input_tokens": 5, "max_tokens": None},
            {"no": "id"},
            "junk",
        ]
    }
    with Provider([answer(listing)]) as provider:
        models = asyncio.run(
            discover(
                PROVIDERS["anthropic"],
                dialect=anthropic,
                key=KEY,
                environ={"ANTHROPIC_BASE_URL": provider.base_url},
            )
        )
        request = provider.requests[0]
    assert request.path == "/v1/models?limit=1000"
    assert request.headers["x-api-key"] == KEY.value
    assert [(it.name, it.window_tokens, it.output_tokens, it.known) for it in models] == [
        ("claude-opus-5-5", 900_000, 64_000, True),
        ("claude-new-7", 5, None, False),
    ]


def test_gemini_names_its_models_in_its_own_way() -> None:
    row = {"name": "models/gemini-9", "inputTokenLimit": 100, "outputTokenLimit": 10}
    with Provider([answer({"models": [row]})]) as provider:
        environ = {"GEMINI_BASE_URL": provider.base_url}
        found = asyncio.run(discover(PROVIDERS["gemini"], dialect=gemini, key=KEY, environ=environ))
    assert [(it.name, it.window_tokens, it.output_tokens) for it in found] == [
        ("gemini-9", 100, 10)
    ]


def test_server_without_a_list_has_no_models() -> None:
    with Provider([answer({"hello": 1}), answer([1, 2])]) as provider:
        mine = replace(LOCAL[0], base_url=provider.base_url)
        for _ in range(2):
            assert asyncio.run(discover(mine, dialect=openai_chat, key=None, environ={})) == []


def test_rejected_key_is_told() -> None:
    with Provider([answer({"error": {"type": "authentication_error"}}, status=401)]) as provider:
        environ = {"ANTHROPIC_BASE_URL": provider.base_url}
        with pytest.raises(ProviderError, match="rejected the API key") as caught:
            asyncio.run(
                discover(PROVIDERS["anthropic"], dialect=anthropic, key=KEY, environ=environ)
            )
    assert caught.value.kind is ProviderErrorKind.CREDENTIALS


def test_local_server_that_answers_is_found() -> None:
    with Provider([answer({"data": [{"id": "qwen3:8b"}]})] * 4) as provider:
        environ = {f"{name}_BASE_URL": provider.base_url for name in ("LMSTUDIO", "VLLM")}
        environ |= {"OLLAMA_HOST": provider.base_url, "LLAMACPP_BASE_URL": "http://127.0.0.1:1"}
        servers = asyncio.run(find_local_servers(dialect=openai_chat, environ=environ))
    assert [server.provider.name for server in servers] == ["ollama", "lmstudio", "vllm"]
    assert [model.name for model in servers[0].models] == ["qwen3:8b"]


def test_something_else_on_the_port_is_no_server() -> None:
    with Provider([page("<html>", status=200), page("", status=500)] * 2) as provider:
        environ = {f"{name}_BASE_URL": provider.base_url for name in ("LMSTUDIO", "VLLM")}
        environ |= {"OLLAMA_HOST": provider.base_url, "LLAMACPP_BASE_URL": provider.base_url}
        assert asyncio.run(find_local_servers(dialect=openai_chat, environ=environ)) == []
