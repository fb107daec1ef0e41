from typing import Any

from agentcli.features.batch.tasks import ALL_WAITS_S, TaskLimits


def limited(*, cost_usd: float | None = 0.0, asked_s: float | None = None) -> dict[str, Any]:
    error = {"code": "provider_failed", "kind": "rate_limited", "retry_after_s": asked_s}
    return {"status": "error", "error": error, "cost_usd": cost_usd}


def test_other_results_are_final() -> None:
    limits = TaskLimits(())
    overloaded = {"status": "error", "error": {"code": "provider_failed", "kind": "unavailable"}}
    assert limits.find_wait_s(overloaded) is None
    assert limits.find_wait_s({"status": "ok", "error": None}) is None


def test_wait_is_what_the_provider_asks_for_or_grows_by_itself() -> None:
    asked_s = TaskLimits(()).find_wait_s(limited(asked_s=200.0))
    assert asked_s is not None and 200 <= asked_s <= 240
    limits = TaskLimits(())
    waits = [limits.find_wait_s(limited()) or 0.0 for _ in range(4)]
    assert waits == sorted(waits) and 30 <= waits[0] <= 36 and waits[3] >= 240


def test_no_task_waits_for_ever() -> None:
    limits = TaskLimits(())
    waits: list[float] = []
    while (wait_s := limits.find_wait_s(limited(asked_s=0.0))) is not None:
        waits.append(wait_s)
    assert len(waits) < 20 and sum(waits) <= ALL_WAITS_S


def test_attempts_share_the_cost_limit() -> None:
    limits = TaskLimits(("--max-cost=5", "--mode=auto", "--max-cost=1"))
    assert len(limits.options) == 3
    assert limits.find_wait_s(limited(cost_usd=0.25)) is not None
    assert limits.options[-1] == "--max-cost=0.750000"
    assert limits.add_earlier_cost({"cost_usd": 0.5})["cost_usd"] == 0.75
    assert limits.find_wait_s(limited(cost_usd=0.75)) is None
