import asyncio
from pathlib import Path

from agentcli.session.builder import open_session
from agentcli.types.events import ResultsTrimmed
from agentcli.types.settings import Settings
from tests.support.pictures import png
from tests.support.program import script


def test_image_that_gave_way_is_where_the_line_in_its_place_says(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    for number in range(6):
        (workspace / f"{number}.png").write_bytes(png(30, 20, grey=number))
    looks = [{"calls": [{"read_file": {"path": f"{number}.png"}}]} for number in range(6)]
    settings = Settings(
        workspace=workspace,
        model=script(tmp_path / "s.json", [*looks, "Done."]),
        sessions=tmp_path / "sessions",
        window=12_000,
    )

    async def talk() -> list[ResultsTrimmed]:
        session = open_session(settings, listeners=())
        await session.run_turn("look at all of them")
        await session.close(0)
        return [fact for fact in session.facts if isinstance(fact, ResultsTrimmed)]

    first, *_ = asyncio.run(talk())
    lines = [result.text for result in first.results]
    kept = {line.removesuffix("]").rpartition(" is in ")[2] for line in lines}
    assert kept
    shown = {png(30, 20, grey=number) for number in range(6)}
    assert {Path(path).read_bytes() for path in kept} <= shown
    assert all("read_file " in line and ", an image; " in line for line in lines)
