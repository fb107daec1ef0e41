"""The fenced blocks of a Markdown text, exactly as they were written."""

import re

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)$")


def find_code_blocks(text: str) -> list[str]:
    blocks: list[str] = []
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence:
            if found:
                fence, lines = found[2], []
        elif found and found[2].startswith(fence) and not found[3].strip():
            blocks.append("\n".join(lines) + "\n")
            fence = ""
        else:
            lines.append(line)
    return blocks
