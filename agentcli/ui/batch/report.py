"""What became of a batch: `report.json` for programs and `report.md` for people."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.app.batch.tasks import TaskFile
from agentcli.types.errors import Exit
from agentcli.types.words import pluralize
from agentcli.ui.batch.progress import format_estimate
from agentcli.ui.lines import format_duration
from agentcli.ui.reports.markdown import quote_cell


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    file: TaskFile
    results: Sequence[dict[str, Any]]
    """Of the tasks that are done, in the order of the file."""

    @property
    def waiting(self) -> list[str]:
        done = {result["id"] for result in self.results}
        return [task.id for task in self.file.tasks if task.id not in done]

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [result for result in self.results if result["status"] != "ok"]

    @property
    def exit_code(self) -> int:
        """Of the first task that did not succeed; a wrong line counts when all tasks did."""
        if self.failed:
            return int(self.failed[0]["exit_code"])
        return Exit.USAGE if self.file.bad else Exit.DONE

    @property
    def summary(self) -> str:
        """All of it in one sentence."""
        parts = [f"{len(self.results) - len(self.failed)} of {len(self.file.tasks)} succeeded"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"{len(self.waiting)} not run"] if self.waiting else []
        if self.file.bad:
            parts.append(f"{pluralize(len(self.file.bad), 'line')} of the file wrong")
        return ", ".join(parts)

    def write(self, out: Path) -> None:
        _replace_file(out / "report.json", self._render_json())
        _replace_file(out / "report.md", "\n".join(self._render_markdown()) + "\n")

    def _render_json(self) -> str:
        costs = [result.get("cost_usd") for result in self.results]
        document = {
            "v": 1,
            "tasks": len(self.file.tasks),
            "ok": len(self.results) - len(self.failed),
            "failed": len(self.failed),
            "not_run": self.waiting,
            "bad_lines": [{"line": it.number, "message": it.message} for it in self.file.bad],
            "cost_usd": None if None in costs else sum(cost for cost in costs if cost),
            "cost_is_estimate": any(result.get("cost_is_estimate") for result in self.results),
            "results": list(self.results),
        }
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"

    def _render_markdown(self) -> Iterator[str]:
        yield "# Batch"
        yield ""
        yield f"{self.summary}."
        yield ""
        yield "| task | status | time | cost | files | answer |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for result in self.results:
            yield _render_row(result)
        if self.file.bad:
            yield ""
            yield "## Lines that are wrong"
            yield ""
            yield from (f"- line {it.number}: {quote_cell(it.message)}" for it in self.file.bad)


def _render_row(result: dict[str, Any]) -> str:
    cost, error = result.get("cost_usd"), result.get("error") or {}
    text = error.get("message") or result.get("answer") or ""
    cells = (
        f"[{result['id']}](tasks/{result['id']}/answer.md)",
        result["status"],
        format_duration((result.get("duration_ms") or 0) / 1000),
        "price not known" if cost is None else f"{format_estimate(result)}${cost:.4f}",
        str(len(result.get("files_changed") or ())),
        quote_cell(" ".join(text.split())[:200]),
    )
    return f"| {' | '.join(cells)} |"


def _replace_file(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
