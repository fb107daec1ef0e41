from datetime import date

import pytest

from agentcli.providers.catalog import (
    ALIASES,
    PROVIDERS,
    Provider,
    choose_default_name,
    compute_cost_usd,
    list_model_names,
    resolve,
)
from agentcli.providers.dialect import Model, Price
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Usage


def test_known_model_has_limits_price_and_manners() -> None:
    assert resolve("anthropic/claude-opus-5-5") == Model(
        provider="anthropic",
        name="claude-opus-5-5",
        protocol="anthropic",
        window_tokens=1_000_000,
        output_tokens=128_000,
        price=Price(
            input=4, output=20, cache_read=0.2, cache_write=5, long_cache_write=8, search=0.01
        ),
        hosted=frozenset({"web_search", "web_fetch", "code_execution"}),
        computer=True,
        forced_tool_choice=False,
        documents=True,
        loads_tools=True,
        thinking=True,
    )


@pytest.mark.parametrize("name", [*ALIASES, *list_model_names()])
def test_every_name_of_the_table_is_known(name: str) -> None:
    model = resolve(name)
    assert model.known
    assert model.provider in PROVIDERS


@pytest.mark.parametrize(
    ("name", "provider", "protocol"),
    [
        ("opus", "anthropic", "anthropic"),
        ("claude-sonnet-5-5", "anthropic", "anthropic"),
        ("gpt-6-astra", "openai", "openai-responses"),
        ("openai-chat/gpt-4o", "openai-chat", "openai-chat"),
        ("gemini-3.8-flash", "gemini", "gemini"),
        ("gemini-interactions/gemini-4-argon", "gemini-interactions", "gemini-interactions"),
        ("ollama/qwen3:8b", "ollama", "openai-chat"),
        ("openrouter/meta/llama-4", "openrouter", "openai-chat"),
        ("bedrock/us.anthropic.claude-opus-5-5-v1:0", "bedrock", "anthropic"),
        ("vertex/claude-opus-5-5@20260901", "vertex", "anthropic"),
    ],
)
def test_name_says_whom_to_ask_and_how(name: str, provider: str, protocol: str) -> None:
    model = resolve(name)
    assert (model.provider, model.protocol) == (provider, protocol)


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-5-5-20260901",
        "bedrock/us.anthropic.claude-opus-5-5-v1:0",
        "bedrock/anthropic.claude-opus-5-5-20260901-v1:0",
        "vertex/claude-opus-5-5@20260901",
        "openai/gpt-6.1-sol-2026-08-01",
    ],
)
def test_dates_and_routes_around_a_name_change_nothing(name: str) -> None:
    model = resolve(name)
    assert model.known
    assert model.name == name.rpartition("/")[2]


@pytest.mark.parametrize(
    ("name", "thinks"),
    [
        ("claude-opus-6", True),
        ("claude-opus-4-6", True),
        ("claude-haiku-4-5", False),
        ("claude-sonnet-4-5-20250929", False),
        ("claude-3-7-sonnet-latest", False),
        ("anthropic/some-imitation", False),
        ("openai/gpt-7", True),
        ("openai/gpt-4o", False),
        ("openai/o3", True),
        ("ollama/qwen3", False),
        ("gemini-5-neon", True),
        ("gemini-2.0-flash", False),
    ],
)
def test_unknown_model_can_be_asked_by_what_its_name_says(name: str, thinks: bool) -> None:
    model = resolve(name)
    assert (model.known, model.price, model.window_tokens) == (False, None, None)
    assert model.thinking is thinks


def test_local_models_get_plain_tools_and_no_images() -> None:
    model = resolve("ollama/qwen3")
    assert not model.images
    assert not model.strict_tools


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("opsu", "did you mean opus?"),
        ("ollma", "did you mean ollama?"),
        ("xyzzy/plugh", "agentcli models"),
        ("anthropic", "--model anthropic/NAME"),
        ("anthropic/", "--model anthropic/NAME"),
        ("", "agentcli models"),
    ],
)
def test_name_that_says_nothing_is_a_setting_to_fix(name: str, hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(name)
    assert caught.value.hint == hint


def test_provider_of_the_settings_is_asked_like_any_other() -> None:
    mine = Provider(name="mine", protocol="openai-chat", base_url="http://10.0.0.1:9")
    model = resolve("mine/big/model", providers={**PROVIDERS, "mine": mine})
    assert (model.provider, model.name, model.protocol) == ("mine", "big/model", "openai-chat")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic/claude-opus-5-5"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": " "}, "openai/gpt-6.1-sol"),
        ({"GOOGLE_API_KEY": "k"}, "gemini/gemini-4-argon"),
    ],
)
def test_default_follows_the_keys(environ: dict[str, str], expected: str | None) -> None:
    assert choose_default_name(environ) == expected


def test_default_follows_stored_keys() -> None:
    assert choose_default_name({}, stored=["gemini"]) == "gemini/gemini-4-argon"


def test_promotional_price_ends() -> None:
    before = resolve("argon", today=date(2026, 11, 30)).price
    after = resolve("argon", today=date(2026, 12, 1)).price
    assert (before, after) == (
        Price(input=2, output=10, search=0.014),
        Price(input=4, output=20, search=0.014),
    )


def test_cost_counts_searches() -> None:
    assert compute_cost_usd(resolve("opus"), Usage(searches=3)) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("name", "hosted"),
    [
        ("sol", {"web_search", "code_execution"}),
        ("argon", {"web_search", "web_fetch", "code_execution"}),
        ("gemini/gemini-2.5-flash", set[str]()),
        ("vertex/claude-opus-5-5", {"web_search"}),
        ("bedrock/us.anthropic.claude-opus-5-5-v1:0", set[str]()),
        ("openai-chat/gpt-6-astra", set[str]()),
        ("ollama/qwen3", set[str]()),
    ],
)
def test_model_has_the_hosted_tools_of_its_provider(name: str, hosted: set[str]) -> None:
    assert resolve(name).hosted == hosted


def test_cost_counts_each_kind_of_token() -> None:
    usage = Usage(
        input_tokens=1000,
        cache_read_tokens=10_000,
        cache_write_tokens=2000,
        output_tokens=500,
        reasoning_tokens=400,
    )
    assert compute_cost_usd(resolve("opus"), usage) == pytest.approx(
        (1000 * 4 + 10_000 * 0.2 + 2000 * 5 + 500 * 20) / 1e6
    )


def test_cost_of_a_long_prompt_is_higher() -> None:
    model = resolve("sol")
    short = compute_cost_usd(model, Usage(input_tokens=272_000, output_tokens=10))
    long = compute_cost_usd(model, Usage(input_tokens=272_001, output_tokens=10))
    assert short == pytest.approx((272_000 * 2 + 10 * 10) / 1e6)
    assert long == pytest.approx((272_001 * 2 * 2 + 10 * 10 * 1.5) / 1e6)


def test_cost_of_an_unknown_model_is_not_known() -> None:
    assert compute_cost_usd(resolve("ollama/qwen3"), Usage(input_tokens=1)) is None


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("opus", True),
        ("anthropic/claude-3-5-haiku-latest", False),
        ("bedrock/us.anthropic.claude-opus-5-5-v1:0", True),
        ("sol", True),
        ("openai/gpt-5.4", True),
        ("openai/gpt-5.3", False),
        ("openai/gpt-5-mini", False),
        ("openai/gpt-10", True),
        ("azure/gpt-5.5", True),
        ("openai-chat/gpt-6-luna", False),
        ("argon", False),
        ("openrouter/anthropic/claude-opus-5-5", False),
        ("ollama/qwen3", False),
    ],
)
def test_catalogue_knows_whose_provider_loads_tools_that_were_found(name: str, loads: bool) -> None:
    assert resolve(name).loads_tools is loads


@pytest.mark.parametrize(
    ("name", "bare", "effort"),
    [
        ("sonnet:high", "claude-sonnet-5-5", "high"),
        ("openai/gpt-6.1-sol:none", "gpt-6.1-sol", "none"),
        ("ollama/qwen3:7b", "qwen3:7b", None),
        ("ollama/qwen3:7b:low", "qwen3:7b", "low"),
    ],
)
def test_effort_after_a_name(name: str, bare: str, effort: str | None) -> None:
    model = resolve(name)
    assert (model.name, model.effort) == (bare, effort)
