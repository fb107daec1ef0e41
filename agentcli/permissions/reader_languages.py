"""Readers whose words are a small language of their own: find, sed, awk, jq, test, printf, date.

Each function raises Unproven unless every word belongs to the part of that language that only
reads.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from agentcli.permissions.reader_options import (
    ReaderOptions,
    Unproven,
    refuse_globs,
    refuse_unsafe_globs,
    split_names,
)
from agentcli.permissions.shell import ShellWord

_FIND_ALONE = split_names(
    """-a -and -o -or -not ! ( ) , -depth -d -daystart -empty -executable -false -follow -ls
    -mount -nogroup -noleaf -nouser -print -print0 -prune -quit -readable -true -warn -nowarn
    -writable -xdev"""
)
_FIND_VALUED = split_names(
    """-amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname -inum -ipath
    -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -newerat
    -newerct -newermt -path -perm -printf -regex -regextype -samefile -size -type -uid -used
    -user -wholename -xtype"""
)


def find(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    rest = list(words)
    while rest and (rest[0].text in ("-L", "-H", "-P") or rest[0].text[:1] not in ("-", "(", "!")):
        rest.pop(0)
    refuse_globs(rest)
    while rest:
        word = rest.pop(0).text
        if word in _FIND_VALUED and rest:
            rest.pop(0)
        elif word not in _FIND_ALONE:
            raise Unproven(f"find {word}")


# No backslash, bracket or delimiter in a pattern: its end must not depend on the dialect.
_SED_TEXT = r"[A-Za-z0-9 _.,:=+*^$@%\"'<>-]"
_SED_ADDRESS = rf"(?:\d+|\$|/{_SED_TEXT}+/)"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?"
_SED_COMMAND = rf"{_SED_RANGE} ?(?:[pdq=]|s/{_SED_TEXT}+/{_SED_TEXT}*/[gpI\d]*)"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:; ?{_SED_COMMAND})*")
_SED_OPTIONS = ReaderOptions.parse("-nEr -e: --quiet --silent --regexp-extended --expression:")


def sed(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    operands = [word.text for word in _SED_OPTIONS.operands(words)]
    scripts = _collect_values(words, ("-e", "--expression")) or operands[:1]
    if not scripts or not all(map(_SED_SCRIPT.fullmatch, scripts)):
        raise Unproven("a script that may do more than print")


def _collect_values(words: Sequence[ShellWord], options: Sequence[str]) -> list[str]:
    """Return the values given in a separate word. Raise Unproven for other spellings."""
    values: list[str] = []
    for word, following in pairwise([*words, ShellWord("")]):
        if word.text in options:
            values.append(following.text)
        elif word.text.startswith(tuple(options)) or re.match(r"-[nEr]+e", word.text):
            raise Unproven(f"option {word.text}")
    return values


_AWK_FIELD = r"\$(?:\d+|NF)"
_AWK_LINES = r"NR ?(?:[<>=!]=|[<>]) ?\d+"
_AWK_PRINT = rf"\{{ ?print(?: ?{_AWK_FIELD}(?:, ?{_AWK_FIELD})*)?;? ?\}}"
_AWK_SCRIPT = re.compile(rf"{_AWK_LINES}|(?:{_AWK_LINES} ?)?{_AWK_PRINT}")


def awk(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    operands = [word.text for word in ReaderOptions.parse("-F:").operands(words)]
    if not operands or not _AWK_SCRIPT.fullmatch(operands[0]):
        raise Unproven("a program that may do more than print fields")
    if any(name.startswith("/inet") for name in operands[1:]):
        raise Unproven("/inet (opens a network connection)")


_JQ_TWO_VALUES = frozenset(["--arg", "--argjson", "--slurpfile", "--rawfile"])
_JQ_OPTIONS = ReaderOptions.parse(
    """-acCehjMnrRsS -f: --ascii-output --compact-output --color-output --exit-status --from-file:
    --indent: --join-output --monochrome-output --null-input --raw-input --raw-output --slurp
    --sort-keys --stream --tab --args --jsonargs"""
)


def jq(words: Sequence[ShellWord]) -> None:
    """Check only the options: a jq filter cannot write or start anything."""
    refuse_unsafe_globs(words)
    rest, kept = list(words), list[ShellWord]()
    while rest:
        word = rest.pop(0)
        if word.text in _JQ_TWO_VALUES:
            del rest[:2]
        else:
            kept.append(word)
    _JQ_OPTIONS.operands(kept)


_TEST_OPERATORS = split_names(
    """-b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S -ef -nt -ot
    -eq -ne -lt -le -gt -ge -a -o"""
)


def condition(words: Sequence[ShellWord]) -> None:
    """Refuse -v and -R: they evaluate a subscript, and with it any command inside."""
    refuse_globs(words)
    for word in words:
        is_operator = word.text in _TEST_OPERATORS or re.fullmatch(r"-\d*", word.text)
        if word.text.startswith("-") and not is_operator:
            raise Unproven(f"test {word.text}")


_PRINTF_FORMAT = re.compile(r"(?:[^%]|%%|%[-+ #0]*\d*(?:\.\d+)?[sdiouxXeEfgGcbq])*", re.DOTALL)


def printf(words: Sequence[ShellWord]) -> None:
    """Refuse -v and %n: they assign a variable."""
    if not words or words[0].is_glob or words[0].text.startswith("-"):
        raise Unproven("printf without a plain format")
    if not _PRINTF_FORMAT.fullmatch(words[0].text):
        raise Unproven(f"printf format {words[0].text}")


_DATE_OPTIONS = ReaderOptions.parse(
    "-uR -d: -r: -I? --utc --universal --date: --reference: --iso-8601? --rfc-3339: --rfc-email"
)


def date(words: Sequence[ShellWord]) -> None:
    refuse_globs(words)
    for operand in _DATE_OPTIONS.operands(words):
        if not operand.text.startswith("+"):
            raise Unproven(f"date {operand.text} (sets the clock)")
