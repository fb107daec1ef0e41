"""What a session's models may cost: opened within the budget the person has set, if any."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agentcli.app.model import ModelInUse, open_model
from agentcli.settings import Settings
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Usage
from agentcli.types.spending import Spending

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget


def build_budget(settings: Settings, *, spent: Spending) -> "Budget | None":
    """Return what the session may spend, of which `spent` is gone; None without a limit."""
    if settings.max_cost is None and settings.max_tokens is None:
        return None
    from agentcli.agent.budget import Budget

    return Budget(cost_usd=settings.max_cost, tokens=settings.max_tokens, spent=spent)


def open_priced_model(settings: Settings) -> ModelInUse:
    """Open the model; under `max_cost` it carries a warning where its price is not known.

    Raises SettingsError where it cannot be opened, or `strict_cost` wants a known price."""
    model = open_model(settings)
    if settings.max_cost is not None and model.price(Usage()) is None:
        unknown = f"the price of {model.name} is not known, so --max-cost cannot be kept"
        if settings.strict_cost:
            raise SettingsError(unknown, hint="use --max-tokens, or leave out --strict-cost")
        model = replace(model, warning=unknown)
    return model


def apply_budget(budget: "Budget | None", model: ModelInUse) -> ModelInUse:
    """The model, asked only as far as the person wants to pay."""
    if budget is None:
        return model
    return model.wrap_provider(
        partial(budget.wrap_provider, price=model.price, output_limit=lambda: model.output_tokens)
    )


def open_evaluator_model(settings: Settings, budget: "Budget | None") -> ModelInUse:
    """The model that is asked for opinions, where it has one of its own."""
    return apply_budget(budget, open_priced_model(replace(settings, model=settings.evaluator)))
