import pytest

from agentcli.types.errors import WireErrorKind
from agentcli.types.messages import Json
from agentcli.wire.openai.errors import error, error_in_stream


def fault(message: str, code: Json = None, kind: str = "invalid_request_error") -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, fault("Incorrect API key provided", "invalid_api_key"), WireErrorKind.CREDENTIALS),
        (403, fault("Country not supported"), WireErrorKind.CREDENTIALS),
        (429, fault("You exceeded it", "insufficient_quota"), WireErrorKind.CREDENTIALS),
        (402, fault("Insufficient credits"), WireErrorKind.CREDENTIALS),
        (404, fault("The model `x` does not exist", "model_not_found"), WireErrorKind.MODEL),
        (404, {"error": {"message": "model 'x' not found"}}, WireErrorKind.MODEL),
        (400, {"error": {"message": "gemma does not support tools"}}, WireErrorKind.MODEL),
        (
            400,
            fault("Function tools with reasoning_effort are not supported, use /v1/responses"),
            WireErrorKind.MODEL,
        ),
        (400, fault("Too long", "context_length_exceeded"), WireErrorKind.OVERFLOW),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens."},
            WireErrorKind.OVERFLOW,
        ),
        (
            400,
            {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error"}},
            WireErrorKind.OVERFLOW,
        ),
        (413, "", WireErrorKind.OVERFLOW),
        (400, fault("Flagged", "invalid_prompt"), WireErrorKind.REFUSED),
        (400, fault("Filtered", "content_filter"), WireErrorKind.REFUSED),
        (429, fault("Slow down", "rate_limit_exceeded", "tokens"), WireErrorKind.RATE_LIMITED),
        (
            503,
            {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
            WireErrorKind.UNAVAILABLE,
        ),
        (500, "<html><title>Oops</title></html>", WireErrorKind.UNAVAILABLE),
        (529, None, WireErrorKind.UNAVAILABLE),
        (400, fault("Unknown parameter: 'x'."), WireErrorKind.REJECTED),
        (404, fault("Not found.", "previous_response_not_found"), WireErrorKind.REJECTED),
        (422, {"detail": "no"}, WireErrorKind.REJECTED),
        (400, [fault("Unknown parameter: 'x'.")], WireErrorKind.REJECTED),
        (
            400,
            fault("No tool output found for function call call_x"),
            WireErrorKind.REJECTED,
        ),
    ],
)
def test_error_has_the_kind_its_code_or_sentence_says(
    status: int, body: Json, kind: WireErrorKind
) -> None:
    assert (error(status, {}, body).kind, error(status, {}, body).status) == (kind, status)


def test_error_is_told_in_the_words_of_the_provider() -> None:
    told = error(400, {}, fault("Unknown parameter: 'x'."))
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
    assert error(429, headers, fault(message)).retry_after_s == wait_s


def test_hint_says_which_protocol_takes_tools() -> None:
    told = error(400, {}, fault("Function tools with reasoning_effort ... use /v1/responses"))
    assert told.hint == "this model takes tools on the Responses protocol only: use openai/NAME"


@pytest.mark.parametrize(
    ("told", "kind", "status"),
    [
        ({"code": 502, "message": "Gone"}, WireErrorKind.UNAVAILABLE, 502),
        ({"code": "429", "message": "Slow"}, WireErrorKind.RATE_LIMITED, 429),
        ({"code": 401, "message": "Who?"}, WireErrorKind.CREDENTIALS, 401),
        ({"error": {"code": "context_length_exceeded"}}, WireErrorKind.OVERFLOW, None),
        ("it broke", WireErrorKind.UNAVAILABLE, None),
        (None, WireErrorKind.UNAVAILABLE, None),
        ({"code": ["odd"]}, WireErrorKind.UNAVAILABLE, None),
    ],
)
def test_error_in_a_stream_may_carry_a_status_for_a_code(
    told: Json, kind: WireErrorKind, status: int | None
) -> None:
    made = error_in_stream(told)
    assert (made.kind, made.status) == (kind, status)
    assert str(made)
