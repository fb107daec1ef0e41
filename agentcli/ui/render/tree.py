"""What the parser found, as a tree: blocks, and in them the pieces of their text.

The parser gives a flat list in which a block opens and closes. Its own tree does far more than is
asked for here, and costs a good part of what parsing does.
"""

from collections.abc import Iterable

from markdown_it.token import Token


class Node:
    """One token, or the two around what stands between them."""

    __slots__ = ("children", "content", "map", "token", "type")

    def __init__(self, token: Token) -> None:
        self.token = token
        """The opening one of two."""
        self.type = token.type.removesuffix("_open") if token.nesting else token.type
        self.content = token.content
        self.map = token.map
        """The first line of its source, and the one after its last."""
        self.children: list[Node] = build_tree(token.children) if token.children else []


def build_tree(tokens: Iterable[Token]) -> list[Node]:
    """The nodes at the top."""
    top: list[Node] = []
    open_lists = [top]
    for token in tokens:
        if token.nesting < 0:
            open_lists.pop()
            continue
        node = Node(token)
        open_lists[-1].append(node)
        if token.nesting > 0:
            open_lists.append(node.children)
    return top
