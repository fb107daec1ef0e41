"""Whether a git configuration file can make git run, include or fetch anything by itself.

The answer is yes unless every line is known to be harmless: this is what `git init` writes, who
commits, and where to push.
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
        "symlinks",
    },
    "user": {"name", "email"},
    "init": {"defaultbranch"},
    "extensions": {"objectformat", "refstorage"},
    "remote": {"fetch", "url"},
    "branch": {"merge", "remote"},
}
_FETCHED_BY_GIT_ITSELF = re.compile(
    r"((https?|ssh|git)://[\w.@-]+(:\d+)?/|git@[\w.-]+[:/])[\w./~-]*"
)


def is_harmless(text: str) -> bool:
    section = ""
    for line in text.splitlines():
        if found := _SECTION.fullmatch(line):
            section = found[1].partition(" ")[0]
        elif not _NEUTRAL.fullmatch(line) and not _is_harmless_entry(section, line):
            return False
    return True


def _is_harmless_entry(section: str, line: str) -> bool:
    entry = _ENTRY.fullmatch(line.lower())
    if not entry or line.endswith("\\"):
        return False
    key, value = entry.groups()
    if key == "url" and not _FETCHED_BY_GIT_ITSELF.fullmatch(value):
        return False
    return key in _HARMLESS.get(section, ())
