from importlib import import_module
from typing import Any, get_args

import pytest

from agentcli.providers.openai.errors import make_stream_error, read_error
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.messages import Json


def fault(message: str, code: Json = None, kind: str = "invalid_request_error") -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            401,
            fault("Incorrect API key provided", "invalid_api_key"),
            ProviderErrorKind.CREDENTIALS,
        ),
        (403, fault("Country not supported"), ProviderErrorKind.CREDENTIALS),
        (429, fault("You exceeded it", "insufficient_quota"), ProviderErrorKind.CREDENTIALS),
        (402, fault("Insufficient credits"), ProviderErrorKind.CREDENTIALS),
        (404, fault("The model `x` does not exist", "model_not_found"), ProviderErrorKind.MODEL),
        (404, {"error": {"message": "model 'x' not found"}}, ProviderErrorKind.MODEL),
        (400, {"error": {"message": "gemma does not support tools"}}, ProviderErrorKind.MODEL),
        (
            400,
            fault("Function tools with reasoning_effort are not supported, use /v1/responses"),
            ProviderErrorKind.MODEL,
        ),
        (400, fault("Too long", "context_length_exceeded"), ProviderErrorKind.OVERFLOW),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens."},
            ProviderErrorKind.OVERFLOW,
        ),
        (
            400,
            {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error"}},
            ProviderErrorKind.OVERFLOW,
        ),
        (413, "", ProviderErrorKind.OVERFLOW),
        (400, fault("Flagged", "invalid_prompt"), ProviderErrorKind.REFUSED),
        (400, fault("Filtered", "content_filter"), ProviderErrorKind.REFUSED),
        (429, fault("Slow down", "rate_limit_exceeded", "tokens"), ProviderErrorKind.RATE_LIMITED),
        (
            503,
            {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
            ProviderErrorKind.UNAVAILABLE,
        ),
        (500, "<html><title>Oops</title></html>", ProviderErrorKind.UNAVAILABLE),
        (529, None, ProviderErrorKind.UNAVAILABLE),
        (400, fault("Unknown parameter: 'x'."), ProviderErrorKind.REJECTED),
        (404, fault("Not found.", "previous_response_not_found"), ProviderErrorKind.REJECTED),
        (422, {"detail": "no"}, ProviderErrorKind.REJECTED),
        (400, [fault("Unknown parameter: 'x'.")], ProviderErrorKind.REJECTED),
        (
            400,
            fault("No tool output found for function call call_x"),
            ProviderErrorKind.REJECTED,
        ),
    ],
)
def test_error_has_the_kind_its_code_or_sentence_says(
    status: int, body: Json, kind: ProviderErrorKind
) -> None:
    assert (read_error(status, {}, body=body).kind, read_error(status, {}, body=body).status) == (
        kind,
        status,
    )


def test_error_is_told_in_the_words_of_the_provider() -> None:
    told = read_error(400, {}, body=fault("Unknown parameter: 'x'."))
    assert str(told) == "Unknown parameter: 'x'. (HTTP 400)"


@pytest.mark.parametrize(
    ("headers", "message", "wait_s"),
    [
        ({"retry-after": "7"}, "Please try again in 1s.", 7),
        ({"retry-after-ms": "250"}, "", 0.25),
        ({}, "Please try again in 1.5s.", 1.5),
        ({}, "Please try again in 350ms.", 0.35),
        ({}, "Please try again in 2m30s.", 150),
        ({}, "Slow down.", None),
    ],
)
def test_wait_is_told_by_a_header_or_in_the_sentence(
    headers: dict[str, str], message: str, wait_s: float | None
) -> None:
    assert read_error(429, headers, body=fault(message)).retry_after_s == wait_s


def test_hint_says_which_protocol_takes_tools() -> None:
    told = read_error(
        400, {}, body=fault("Function tools with reasoning_effort ... use /v1/responses")
    )
    assert (
        told.hint
        == "this model can use tools only over the Responses protocol: --model openai/NAME"
    )


@pytest.mark.parametrize(
    ("told", "kind", "status"),
    [
        ({"code": 502, "message": "Gone"}, ProviderErrorKind.UNAVAILABLE, 502),
        ({"code": "429", "message": "Slow"}, ProviderErrorKind.RATE_LIMITED, 429),
        ({"code": 401, "message": "Who?"}, ProviderErrorKind.CREDENTIALS, 401),
        ({"error": {"code": "context_length_exceeded"}}, ProviderErrorKind.OVERFLOW, None),
        ({"type": "invalid_request_error", "code": "502"}, ProviderErrorKind.UNAVAILABLE, 502),
        ({"type": "invalid_request_error", "code": None}, ProviderErrorKind.REJECTED, None),
        ("it broke", ProviderErrorKind.UNAVAILABLE, None),
        (None, ProviderErrorKind.UNAVAILABLE, None),
        ({"code": ["odd"]}, ProviderErrorKind.UNAVAILABLE, None),
    ],
)
def test_error_in_a_stream_may_carry_a_status_for_a_code(
    told: Json, kind: ProviderErrorKind, status: int | None
) -> None:
    made = make_stream_error(told)
    assert (made.kind, made.status) == (kind, status)
    assert str(made)


TRANSIENT_CODES = {"server_error", "rate_limit_exceeded", "vector_store_timeout"}


def test_failed_response_is_sent_again_only_if_that_may_help() -> None:
    sdk: Any = import_module("openai.types.responses")  # it takes a second
    codes = set(get_args(sdk.ResponseError.model_fields["code"].annotation))
    assert codes > TRANSIENT_CODES
    made = {code: make_stream_error({"code": code, "message": "No."}) for code in codes}
    assert {code for code in codes if made[code].may_be_retried} == TRANSIENT_CODES
