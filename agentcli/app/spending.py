"""What a session's models may cost: opened within the budget the person has set, if any."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agentcli.app.model import ModelInUse, open_model
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Usage

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget


def open_budget(settings: Settings) -> "Budget | None":
    if settings.max_cost is None and settings.max_tokens is None:
        return None
    from agentcli.agent.budget import Budget

    return Budget(cost_usd=settings.max_cost, tokens=settings.max_tokens)


def within(budget: "Budget | None", model: ModelInUse, settings: Settings) -> ModelInUse:
    """The model, asked only as far as the person wants to pay."""
    if budget is None:
        return model
    if settings.max_cost is not None and model.price(Usage()) is None:
        unknown = f"the price of {model.name} is not known, so --max-cost cannot be kept"
        if settings.strict_cost:
            raise SettingsError(unknown, hint="use --max-tokens, or leave out --strict-cost")
        model = replace(model, warning=unknown)
    return model.within(
        partial(budget.wire, price=model.price, output_limit=lambda: model.output_tokens)
    )


def open_evaluator(settings: Settings, budget: "Budget | None") -> ModelInUse:
    """The model that is asked for opinions, where it has one of its own."""
    return within(budget, open_model(replace(settings, model=settings.evaluator)), settings)
