"""How many examples a property is tried with: some in every run, many in a soak run."""

from typing import Any

from hypothesis import settings

EVERY_RUN = "every-run"
_FEWEST = 5

settings.register_profile(EVERY_RUN, max_examples=15, deadline=None)
settings.register_profile("soak", max_examples=2_000, deadline=None)


def examples(number: int, **more: Any) -> settings:
    """Return settings with this number of examples, or the percentage of it that is in force."""
    percentage = settings().max_examples
    return settings(max_examples=max(_FEWEST, number * percentage // 100), deadline=None, **more)
