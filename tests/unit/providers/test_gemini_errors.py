import pytest

from agentcli.providers.gemini import generate as gemini
from agentcli.providers.gemini import interactions as gemini_interactions
from agentcli.providers.gemini.errors import make_stream_error
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.messages import Json

DAILY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
MINUTELY = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"


def fault(code: int, status: str, message: str, *details: Json) -> Json:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quota(quota_id: str) -> Json:
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaMetric": "requests", "quotaId": quota_id, "quotaValue": "250"}],
    }


def retry(delay: Json) -> Json:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


INVALID_KEY: Json = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            400,
            fault(400, "INVALID_ARGUMENT", "API key not valid. Please pass one.", INVALID_KEY),
            "credentials",
        ),
        (400, fault(400, "INVALID_ARGUMENT", "API key expired. Renew it."), "credentials"),
        (
            400,
            fault(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            "credentials",
        ),
        (401, fault(401, "UNAUTHENTICATED", "Missing credentials."), "credentials"),
        (403, fault(403, "PERMISSION_DENIED", "Not for you."), "credentials"),
        (404, fault(404, "NOT_FOUND", "models/gemini-0 is not found."), "model"),
        (
            400,
            fault(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1048600) exceeds the maximum number of tokens allowed"
                " (1048576).",
            ),
            "overflow",
        ),
        (400, fault(400, "INVALID_ARGUMENT", "Corrupted thought signature."), "rejected"),
        (429, fault(429, "RESOURCE_EXHAUSTED", "Slow down.", quota(MINUTELY)), "rate_limited"),
        (429, fault(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", quota(DAILY)), "credentials"),
        (429, fault(429, "RESOURCE_EXHAUSTED", "Quota of x, limit: 0, model: y"), "credentials"),
        (429, fault(429, "RESOURCE_EXHAUSTED", "Quota of x, limit: 050"), "rate_limited"),
        (500, fault(500, "INTERNAL", "An internal error has occurred."), "unavailable"),
        (503, fault(503, "UNAVAILABLE", "The model is overloaded."), "unavailable"),
        (504, fault(504, "DEADLINE_EXCEEDED", "Deadline expired."), "unavailable"),
        (499, fault(499, "CANCELLED", "Cancelled."), "unavailable"),
        (418, None, "rejected"),
        (502, "<html><title>Bad Gateway</title></html>", "unavailable"),
        (429, "", "rate_limited"),
        (400, {"error": {"code": "invalid_request", "message": "No."}}, "rejected"),
        (400, {"error": {"code": "parameter_unknown", "message": "No."}}, "rejected"),
        (400, {"error": {"code": "safety", "message": "No."}}, "refused"),
        (
            400,
            {"error": {"code": "invalid_request", "message": "Request blocked due to safety."}},
            "refused",
        ),
        (401, {"error": {"code": "authentication", "message": "No."}}, "credentials"),
        (404, {"error": {"code": "model_not_found", "message": "No."}}, "model"),
        (429, {"error": {"code": "rate_limit_exceeded", "message": "No."}}, "rate_limited"),
        (429, {"error": {"code": "quota_exceeded", "message": "No."}}, "credentials"),
        (500, {"error": {"code": "malformed_function_call", "message": "No."}}, "unavailable"),
    ],
)
def test_error_says_who_can_act(status: int, body: Json, kind: str) -> None:
    for dialect in (gemini, gemini_interactions):
        for given in (body, [body]):
            assert dialect.read_error(status, {}, body=given).kind == ProviderErrorKind(kind)


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (fault(429, "RESOURCE_EXHAUSTED", "Slow down.", retry("2s")), {}, 2.0),
        (fault(429, "RESOURCE_EXHAUSTED", "Slow down.", retry("34.074s")), {}, 34.074),
        (fault(429, "RESOURCE_EXHAUSTED", "Slow down.", retry(5), retry("soon")), {}, None),
        (fault(429, "RESOURCE_EXHAUSTED", "Please retry in 48.8s."), {}, 48.8),
        (fault(429, "RESOURCE_EXHAUSTED", "Slow down."), {"retry-after": "7"}, 7.0),
        (fault(503, "UNAVAILABLE", "Slow down."), {}, None),
        ("a page", {"retry-after": "9"}, 9.0),
    ],
)
def test_wait_stands_in_the_body_or_in_the_header(
    body: Json, headers: dict[str, str], expected: float | None
) -> None:
    assert gemini.read_error(429, headers, body=body).retry_after_s == expected


def test_error_is_one_line_in_the_service_own_words() -> None:
    body = [fault(400, "INVALID_ARGUMENT", "* contents\n  is not specified")]
    error = gemini.read_error(400, {}, body=list(body))
    assert (str(error), error.status) == ("* contents is not specified (HTTP 400)", 400)
    page = "<!DOCTYPE html><html><title>502</title></html>"
    assert str(gemini.read_error(502, {}, body=page)) == "received a web page: 502 (HTTP 502)"


def test_spent_quota_is_found_however_long_the_sentence_is() -> None:
    body = fault(429, "RESOURCE_EXHAUSTED", "Read on. " * 100 + "limit: 0, model: x")
    error = gemini.read_error(429, {}, body=body)
    assert error.kind is ProviderErrorKind.CREDENTIALS
    assert "quota is used up" in error.hint


@pytest.mark.parametrize(
    ("told", "kind", "said"),
    [
        ({"code": 503, "message": "Busy."}, "unavailable", "Busy. (HTTP 503)"),
        ({"code": "not_found", "message": "Gone."}, "model", "Gone."),
        ({"code": "invalid_request", "message": "Bad."}, "rejected", "Bad."),
        ({"code": "api_error", "message": "Oh."}, "unavailable", "Oh."),
        ({"code": 13, "message": "Oh."}, "unavailable", "Oh."),
        ("Oh.", "unavailable", "Oh."),
        (None, "unavailable", "Gemini reported an unknown error"),
    ],
)
def test_error_in_a_stream_is_worth_a_retry_unless_it_says_otherwise(
    told: Json, kind: str, said: str
) -> None:
    error = make_stream_error(told)
    assert (error.kind, str(error)) == (ProviderErrorKind(kind), said)
