"""Code in colours, line by line: a line costs the same however long the code before it is.

The characters of a line are never changed, only styled; what would act on a terminal is escaped.
"""

from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from itertools import groupby
from typing import Any, cast

from pygments.lexer import ExtendedRegexLexer, Lexer, RegexLexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Comment, Error, String, Token, _TokenType
from pygments.util import ClassNotFound
from rich.style import Style
from rich.text import Span, Text

from agentcli.ui.render.paint import append_escaped, escape
from agentcli.ui.render.theme import PLAIN, Theme

STYLED_CHARS = 2_000
"""The longest line that is styled. A longer one is data or minified, and could take forever."""
_IDLE_STEPS = 50

Piece = tuple[_TokenType, str]


@lru_cache(maxsize=64)
def find_lexer_by_name(name: str) -> Lexer | None:
    return _find_lexer(get_lexer_by_name, name.lower())


@lru_cache(maxsize=256)
def find_lexer_for_file(path: str) -> Lexer | None:
    return _find_lexer(get_lexer_for_filename, path.rpartition("/")[2])


def _find_lexer(search: Any, name: str) -> Lexer | None:
    try:
        lexer: Lexer = search(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer


class Highlighter:
    """A highlighter for the lines of one piece of code, in order."""

    def __init__(self, lexer: Lexer | None, theme: Theme) -> None:
        self._lines = LineLexer(lexer) if lexer is not None and theme.syntax else None
        self._theme = theme
        self._styles: dict[_TokenType, Style] = {}
        """The styles looked up so far."""

    def preview_line(self, text: str) -> Text:
        """Style the beginning of the next line, without any effect on the lines after it."""
        ahead = copy(self)
        ahead._lines = self._lines and self._lines.fork()
        return ahead.style_line(text)

    def style_line(self, text: str, base: Style = PLAIN) -> Text:
        """Style one line, given without its newline."""
        pieces = self._lines.split_line(text) if self._lines else [(Token, text)]
        runs = groupby(pieces, key=lambda piece: base + self._find_style(piece[0]))
        if escape(text) != text:
            styled = Text()
            for style, run in runs:
                characters = "".join(piece for _, piece in run)
                append_escaped(styled, characters, style=style, escape_style=self._theme.escaped)
            return styled
        spans, end = [], 0
        for style, run in runs:
            start = end
            end += sum(len(piece) for _, piece in run)
            if style and end > start:
                spans.append(Span(start, end, style))
        return Text(text, spans=spans)

    def _find_style(self, kind: _TokenType) -> Style:
        style = self._styles.get(kind)
        if style is None:
            style = self._styles[kind] = self._theme.find_token_style(kind)
        return style


class LineLexer:
    """A pygments lexer that gets line after line and keeps its state between them."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._has_rules = isinstance(lexer, RegexLexer) and not isinstance(
            lexer, ExtendedRegexLexer
        )
        self._stack = ["root"]
        self._in_comment = False
        self._knows_comments = Comment in _lex_first_kind(lexer, "/* */").split()

    def fork(self) -> "LineLexer":
        """Return another lexer in the same state."""
        twin = copy(self)
        twin._stack = list(self._stack)
        return twin

    def split_line(self, text: str) -> list[Piece]:
        """Return the pieces of the line; joined they are the line."""
        if len(text) > STYLED_CHARS:
            return [(Token, text)]
        pieces = list(self._lex_with_comments(text))
        # A lexer may leave out characters; the screen must not.
        return pieces if "".join(piece for _, piece in pieces) == text else [(Token, text)]

    def _lex_with_comments(self, text: str) -> Iterator[Piece]:
        """Handle comments over several lines, which most rules can only match as a whole."""
        if self._in_comment:
            inside, closing, text = text.partition("*/")
            self._in_comment = not closing
            yield Comment, inside + closing
            if self._in_comment:
                return
        at = 0
        for kind, piece in self._lex(text + "\n"):
            if self._opens_comment(kind, text[at:]):
                self._in_comment = True
                yield Comment, text[at:]
                return
            yield kind, piece.removesuffix("\n")
            at += len(piece)

    def _opens_comment(self, kind: _TokenType, rest: str) -> bool:
        is_open = rest.startswith("/*") and "*/" not in rest
        return is_open and self._knows_comments and String not in kind.split()

    def _lex(self, source: str) -> Iterator[Piece]:
        if self._has_rules:
            return self._lex_by_rules(source)
        return ((kind, piece) for _, kind, piece in self._lexer.get_tokens_unprocessed(source))

    def _lex_by_rules(self, source: str) -> Iterator[Piece]:
        """Apply the lexer's rules. Its own loop over them would forget the state at the end."""
        rules = cast(Any, self._lexer)._tokens
        at = idle = 0
        while at < len(source):
            rule = _match_rule(
                rules[self._stack[-1]], source, at=at, must_progress=idle > _IDLE_STEPS
            )
            if rule is None:
                yield Error, source[at]
                at += 1
                continue
            found, action, then = rule
            if isinstance(action, _TokenType):
                yield action, found.group()
            elif action is not None:
                for _, kind, piece in action(self._lexer, found):
                    yield kind, piece
            idle = 0 if found.end() > at else idle + 1
            at = found.end()
            if then is not None:
                self._apply_transition(then)

    def _apply_transition(self, then: Any) -> None:
        match then:
            case int():
                del self._stack[max(1, len(self._stack) - abs(then)) :]
            case "#push":
                self._stack.append(self._stack[-1])
            case tuple():
                for state in then:
                    self._enter_state(state)
            case _:
                self._enter_state(then)

    def _enter_state(self, state: str) -> None:
        if state == "#pop":
            del self._stack[max(1, len(self._stack) - 1) :]
        else:
            self._stack.append(self._stack[-1] if state == "#push" else state)


def _match_rule(rules: Any, source: str, *, at: int, must_progress: bool) -> Any:
    """Return the match at this point, its action and the next state; None if no rule matches."""
    for matching, action, then in rules:
        found = matching(source, at)
        if found and (found.end() > at or not must_progress):
            return found, action, then
    return None


def _lex_first_kind(lexer: Lexer, source: str) -> _TokenType:
    kinds = (kind for _, kind, piece in lexer.get_tokens_unprocessed(source) if piece)
    return next(kinds, Token)
