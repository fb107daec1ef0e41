import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcli.features.insights.transcript import Transcript, build_transcript
from agentcli.features.insights.usage import UsageStats
from agentcli.features.insights.view import SCRIPT, render_stats_page, render_view
from agentcli.log.reader import read_log
from tests.support.chromium import BROWSER, open_page
from tests.support.program import agentcli, script, session_log
from tests.unit.log.export.test_documents import FIXTURES, HOSTILE, Page, hostile

needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to open the page")


def edits() -> Transcript:
    return build_transcript(read_log(FIXTURES / "edits" / "log.jsonl").entries)


def test_page_has_its_own_script_and_no_other() -> None:
    page = render_view(hostile())
    assert re.findall(r"<script>(.*?)</script>", page, re.DOTALL) == [SCRIPT]
    assert len(re.findall(r"script-src 'sha256-[\w+/=]+'", page)) == 1
    parsed = Page(page)
    assert not [name for name in parsed.attributes if name.startswith("on")]
    assert HOSTILE[:8] not in page.replace(f"<script>{SCRIPT}", "")


def test_page_has_a_timeline_that_leads_to_every_reply_and_call() -> None:
    page = render_view(edits())
    targets = set(re.findall(r'href="#([\w-]+)"', page))
    assert targets <= set(re.findall(r'id="([\w-]+)"', page))
    assert sum(target.startswith("turn-1-") for target in targets) >= 10
    assert "✗ bash python3 check.py" in page


def test_page_of_usage_adds_sessions_up() -> None:
    stats = UsageStats()
    logs = [FIXTURES / name / "log.jsonl" for name in ("demo", "edits")]
    stats.add(logs, since=datetime.min.replace(tzinfo=UTC))
    page = render_stats_page(stats, period="all")
    Page(page)
    assert "<dt>sessions</dt><dd>2</dd>" in page
    assert "Requests by model" in page
    assert "<script" not in page


def test_command_writes_the_page_beside_the_log_for_the_user_alone(tmp_path: Path) -> None:
    agentcli("run", "--model", script(tmp_path / "s.json", ["Hi."]), "x", home=tmp_path)
    page = session_log(tmp_path).with_name("view.html")
    ran = agentcli("view", home=tmp_path)
    assert (ran.code, ran.out) == (0, f"{page}\n")
    assert "open the file yourself" in ran.err
    assert page.stat().st_mode & 0o077 == 0
    assert agentcli("view", "--no-open", "-o", "v.html", home=tmp_path).err == ""
    assert (tmp_path / "v.html").exists()
    stats = agentcli("stats", "--html", home=tmp_path)
    assert (stats.code, Path(stats.out.strip()).name) == (0, "stats.html")
    assert agentcli("view", "nothing-like-it", home=tmp_path).code == 3


@needs_browser
def test_page_is_used_by_keyboard_and_read_aloud_at_every_width(tmp_path: Path) -> None:
    made = edits()
    made.turns += hostile().turns
    file = tmp_path / "view.html"
    file.write_text(render_view(made))
    with open_page(file, profile=tmp_path / "profile") as page:
        for width in (1280, 390):
            page.resize(width)
            page.wait_for("innerWidth", width)
            overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, f"it is too wide for {width} pixels"
        page.press("Tab")
        page.wait_for("document.activeElement.textContent", "Skip to the transcript")
        page.press("Enter")
        page.wait_for("location.hash", "#transcript")
        assert page.evaluate("document.querySelectorAll('script').length") == 1
        roles = page.list_roles()
        for wanted in (
            ("searchbox", "Search"),
            ("combobox", "in"),
            ("navigation", "Timeline"),
            ("region", "Turns, replies and calls"),
            ("main", ""),
        ):
            assert wanted in roles
        page.evaluate("document.getElementById('query').focus()")
        page.wait_for("document.activeElement.id", "query")
        page.type("check.py")
        page.wait_for("document.getElementById('query').value", "check.py")
        found = page.evaluate("document.getElementById('found').textContent")
        assert re.fullmatch(r"[1-9]\d* of \d+ shown", found)
        count = "document.querySelectorAll('#transcript .call{}').length"
        assert 0 < page.evaluate(count.format(":not([hidden])")) < page.evaluate(count.format(""))
