"""A check whether a git configuration file can make git run, include or fetch anything.

The answer is yes unless every line is known to be harmless: what `git init` writes, who commits,
and where to push.
"""

import re

_NEUTRAL = re.compile(r"\s*([#;].*)?")
_SECTION = re.compile(r'\s*\[(core|user|init|extensions|(remote|branch) "[\w./-]+")\]\s*')
_ENTRY = re.compile(r"\s*([a-z]+)\s*=\s*(\S.*?)\s*")

_HARMLESS = {
    "core": {
        "bare",
        "filemode",
        "ignorecase",
        "logallrefupdates",
        "precomposeunicode",
        "repositoryformatversion",
        "sparsecheckout",
        "sparsecheckoutcone",
        "symlinks",
    },
    "user": {"name", "email"},
    "init": {"defaultbranch"},
    "extensions": {"objectformat", "refstorage", "worktreeconfig"},
    "remote": {"fetch", "url"},
    "branch": {"merge", "remote"},
}
_FETCHED_BY_GIT_ITSELF = re.compile(
    r"((https?|ssh|git)://[\w.@-]+(:\d+)?/|git@[\w.-]+[:/])[\w./~-]*"
)


def is_harmless(text: str) -> bool:
    return not risky_lines(text)


def risky_lines(text: str) -> list[tuple[str, str]]:
    """Return all lines that are not known to be harmless, each with its section header."""
    found: list[tuple[str, str]] = []
    section, begin, is_continued = "", "", False
    for line in text.splitlines():
        if known := _SECTION.fullmatch(line):
            section, begin = known[1].partition(" ")[0], line
        elif line.lstrip().startswith("["):
            section, begin = "", line
        if is_continued or not _is_harmless_line(section, line):
            found.append((begin, line))
        is_continued = line.endswith("\\")
    return found


def _is_harmless_line(section: str, line: str) -> bool:
    is_plain = _NEUTRAL.fullmatch(line) or _SECTION.fullmatch(line)
    return is_plain is not None or _is_harmless_entry(section, line)


def _is_harmless_entry(section: str, line: str) -> bool:
    entry = _ENTRY.fullmatch(line.lower())
    if not entry or line.endswith("\\"):
        return False
    key, value = entry.groups()
    if key == "url" and not _FETCHED_BY_GIT_ITSELF.fullmatch(value):
        return False
    return key in _HARMLESS.get(section, ())
