import asyncio
from pathlib import Path

from agentcli.session.model import SessionModel, open_model
from agentcli.types.events import Event, ModelChanged, Warned
from agentcli.types.settings import Settings
from agentcli.types.spending import NO_SPENDING
from tests.support.program import script


def _switch(tmp_path: Path, told: list[Event], *, fallback: str | None) -> SessionModel:
    model = script(tmp_path / "first.json", ["hi"])
    settings = Settings(workspace=tmp_path, model=model, fallback=fallback)
    return SessionModel(
        open_model(settings),
        settings=settings,
        past=(),
        sum_spent=lambda: NO_SPENDING,
        emit=told.append,
    )


def test_overloaded_model_is_replaced_once_for_all_agents(tmp_path: Path) -> None:
    told: list[Event] = []
    switch = _switch(tmp_path, told, fallback=script(tmp_path / "other.json", ["hi"]))
    overloaded = switch.current.name

    async def fail_twice() -> list[bool]:
        return [await switch.fall_back(overloaded) for _ in range(2)]

    assert asyncio.run(fail_twice()) == [True, True]
    assert switch.current.name == "script/other.json"
    assert [type(event) for event in told] == [ModelChanged, Warned]


def test_without_a_fallback_the_model_stays(tmp_path: Path) -> None:
    told: list[Event] = []
    switch = _switch(tmp_path, told, fallback=None)
    assert not asyncio.run(switch.fall_back(switch.current.name))
    assert (switch.current.name, told) == ("script/first.json", [])


def test_model_that_cannot_be_opened_leaves_the_one_in_use(tmp_path: Path) -> None:
    told: list[Event] = []
    switch = _switch(tmp_path, told, fallback=f"script/{tmp_path}/missing.json")
    assert not asyncio.run(switch.fall_back(switch.current.name))
    assert switch.current.name == "script/first.json"
    assert [event.code for event in told if isinstance(event, Warned)] == ["model.fallback"]
