import asyncio
from typing import Any

import pytest

from agentcli.providers.catalog import PROVIDERS, Key, resolve
from agentcli.providers.dialect import Model, Price
from agentcli.providers.discovery import ask_provider_about
from agentcli.providers.transport import find_dialect
from tests.support.provider import Provider, Reply, answer, page

KEY = Key(value="sk-test-0123456789", source="TEST")
ADDRESSES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GEMINI_BASE_URL",
    "ollama": "OLLAMA_HOST",
    "lmstudio": "LMSTUDIO_BASE_URL",
    "llamacpp": "LLAMACPP_BASE_URL",
    "vllm": "VLLM_BASE_URL",
    "openai": "OPENAI_BASE_URL",
}


def asked(name: str, *replies: Reply, suffix: str = "") -> tuple[Model, list[str]]:
    """What is known of a model then, and which requests it took."""
    model = resolve(name)
    with Provider([*replies]) as provider:
        told = asyncio.run(
            ask_provider_about(
                model,
                PROVIDERS[model.provider],
                dialect=find_dialect(model.protocol),
                key=KEY,
                environ={ADDRESSES[model.provider]: provider.base_url + suffix},
            )
        )
        return told, [f"{request.method} {request.path}" for request in provider.requests]


@pytest.mark.parametrize(
    ("name", "told", "limits", "request_line"),
    [
        (
            "anthropic/claude-new-7",
            {"id": "claude-new-7", "max_input_tokens": 900, "max_tokens": 90},
            (900, 90),
            "GET /v1/models/claude-new-7",
        ),
        (
            "gemini/gemini-9",
            {"name": "models/gemini-9", "inputTokenLimit": 800, "outputTokenLimit": 80},
            (800, 80),
            "GET /v1beta/models/gemini-9",
        ),
        (
            "vllm/qwen",
            {"data": [{"id": "other", "max_model_len": 1}, {"id": "qwen", "max_model_len": 700}]},
            (700, None),
            "GET /v1/models",
        ),
        (
            "lmstudio/qwen",
            {"id": "qwen", "max_context_length": 600, "loaded_context_length": 500},
            (500, None),
            "GET /api/v0/models/qwen",
        ),
        (
            "llamacpp/any",
            {"default_generation_settings": {"n_ctx": 400, "params": {"n_predict": -1}}},
            (400, None),
            "GET /props",
        ),
        (
            "ollama/qwen3",
            {"models": [{"name": "qwen3:latest", "context_length": 300}]},
            (300, None),
            "GET /api/ps",
        ),
    ],
)
def test_provider_tells_how_much_a_model_takes(
    name: str, told: Any, limits: tuple[int, int | None], request_line: str
) -> None:
    model, requests = asked(name, answer(told))
    assert (model.window_tokens, model.output_tokens) == limits
    assert requests == [request_line]


def test_ollama_tells_of_a_model_that_is_not_loaded_when_it_is_shown() -> None:
    shown = {"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960}}
    model, requests = asked("ollama/qwen3:8b", answer({"models": []}), answer(shown))
    assert model.window_tokens == 40_960
    assert requests == ["GET /api/ps", "POST /api/show"]


def test_own_paths_of_a_server_stand_beside_the_version_of_its_address() -> None:
    told = answer({"default_generation_settings": {"n_ctx": 400}})
    assert asked("llamacpp/any", told, suffix="/v1")[1] == ["GET /props"]


def test_price_is_taken_where_it_is_told() -> None:
    row = {
        "id": "some/model",
        "context_length": 200_000,
        "top_provider": {"max_completion_tokens": 32_000},
        "pricing": {"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002"},
    }
    model, _ = asked("openai/some/model", answer({"data": [row]}))
    assert (model.window_tokens, model.output_tokens) == (200_000, 32_000)
    assert model.price == Price(input=2.0, output=10.0, cache_read=0.2)


@pytest.mark.parametrize(
    "reply",
    [
        answer({"error": "no"}, status=404),
        answer({"error": "no"}, status=401),
        page("<html>", status=200),
        answer([1, None, "x"]),
        answer({"data": [{"id": "qwen", "max_model_len": "many"}, None, {"id": 5}]}),
        answer({"data": [{"id": "qwen", "max_model_len": True, "pricing": {"prompt": "-1"}}]}),
        answer("text").but(body=b'{"data": ['),
        answer({}).but(drop=True),
    ],
)
def test_provider_that_tells_nothing_leaves_the_model_as_it_was(reply: Reply) -> None:
    assert asked("vllm/qwen", reply)[0] == resolve("vllm/qwen")


def test_platform_is_not_asked() -> None:
    model = resolve("bedrock/anthropic.claude-new-7")
    told = ask_provider_about(
        model,
        PROVIDERS["bedrock"],
        dialect=find_dialect("anthropic"),
        key=None,
        environ={},
    )
    assert asyncio.run(told) == model
