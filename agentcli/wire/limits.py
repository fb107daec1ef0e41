"""How much a model takes, and what it costs, as its provider tells it: each in its own words."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from agentcli.types.messages import Json
from agentcli.wire.dialect import Model, Price

_WINDOW = (
    "max_input_tokens",  # Anthropic
    "inputTokenLimit",  # Gemini
    "loaded_context_length",  # LM Studio, once the model is loaded
    "context_length",  # OpenRouter, Ollama
    "max_model_len",  # vLLM
    "n_ctx",  # llama.cpp
    "max_context_length",  # LM Studio, Mistral
    "context_window",  # Groq
)
_OUTPUT = ("max_tokens", "outputTokenLimit", "max_completion_tokens", "max_output_tokens")
_MILLION = 1_000_000


def apply_limits(model: Model, row: Mapping[str, Json]) -> Model:
    """The model with what the row tells of it; what it does not tell stays as it was."""
    told = dict(_fields(row))
    return replace(
        model,
        window_tokens=_tokens(told, _WINDOW) or model.window_tokens,
        output_tokens=_tokens(told, _OUTPUT) or model.output_tokens,
        price=model.price or _price(row.get("pricing")),
    )


def _fields(row: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Those of the objects inside it first, without the prefixes some put before a name."""
    for value in row.values():
        if isinstance(value, dict):
            yield from ((key.rpartition(".")[2], item) for key, item in value.items())
    yield from row.items()


def _tokens(told: Mapping[str, Json], names: tuple[str, ...]) -> int | None:
    found = (told.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)


def _price(pricing: Json) -> Price | None:
    """OpenRouter tells USD for one token, in decimals."""
    if not isinstance(pricing, dict):
        return None
    reply, prompt = _usd(pricing.get("completion")), _usd(pricing.get("prompt"))
    if reply is None or prompt is None:
        return None
    return Price(
        input=prompt,
        output=reply,
        cache_read=_usd(pricing.get("input_cache_read")),
        cache_write=_usd(pricing.get("input_cache_write")),
    )


def _usd(value: Json) -> float | None:
    """Per million tokens; below nothing stands for a price that varies."""
    if not isinstance(value, str | int | float):
        return None
    try:
        per_token = float(value)
    except ValueError:
        return None
    return round(per_token * _MILLION, 6) if 0 <= per_token < 1 else None
