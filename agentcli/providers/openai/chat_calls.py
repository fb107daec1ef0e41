"""The calls of one Chat Completions reply, assembled from whatever pieces a server sends.

By the specification a call has its own index, its id and name come once, and its arguments come in
pieces. Compatible servers put all calls at one index, leave ids out, or send arguments whole, as an
object, or twice. Every assembled call has its own id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from agentcli.providers.arguments import make_sendable, parse_arguments, replace_unpaired
from agentcli.providers.normalize import encode_id
from agentcli.providers.openai.content import dump_compact, restore_arguments
from agentcli.types.deltas import CallDelta
from agentcli.types.messages import Echo, Json, ToolCall

EXTRA = "extra_content"
"""The field for signatures that some servers put on a call and want back."""

ARGUMENTS = "arguments"

_MINTED_CHARS = 24


@dataclass(slots=True, kw_only=True)
class StreamedCall:
    minted_id: str
    id: str = ""
    """The server's own id, once it sends one."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: Json = None

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_complete(self) -> bool:
        """True if nothing can follow: the arguments are a whole object."""
        # The last piece is checked first: this also runs in the middle of long arguments.
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}") and isinstance(parse_arguments(self.arguments), dict)

    def continues_with(self, given_id: str, name: str, piece: str) -> bool:
        """Return whether a delta at this call's index belongs to it and does not begin another."""
        if given_id and self.id and given_id != self.id:
            return not name and not self.is_complete  # the server makes a new id for every piece
        if not name or not self.name:
            return True
        return name == self.name and (not self._begins_anew(piece) or piece == self.arguments)

    def add(self, piece: str) -> None:
        """Append to the arguments, or begin them anew if they were complete."""
        if self._begins_anew(piece):
            # The arguments are repeated, or the earlier ones were only a placeholder.
            self.pieces.clear()
        if piece:
            self.pieces.append(piece)

    def _begins_anew(self, piece: str) -> bool:
        """Return whether the piece starts a new object after a whole one."""
        return piece.lstrip().startswith("{") and self.is_complete


class CallAssembly:
    def __init__(self) -> None:
        self._calls: list[StreamedCall] = []
        self._current: dict[int, StreamedCall] = {}
        """The call that the next piece belongs to, by index."""

    @property
    def is_whole(self) -> bool:
        return all(call.is_complete or not call.arguments for call in self._calls)

    def feed(self, delta: Mapping[str, Json], *, reply_id: str) -> CallDelta | None:
        """Add a delta; return what can be shown of it.

        `reply_id` is used to make an id if the server sends none.
        """
        function = delta.get("function")
        given = function if isinstance(function, dict) else {}
        name, piece = _read_word(given, "name"), _read_piece(given.get("arguments"))
        call = self._find_call(delta, name=name, piece=piece, reply_id=reply_id)
        call.id = call.id or _read_word(delta, "id")
        call.name = call.name or name
        call.extra = delta.get(EXTRA) or call.extra
        call.add(piece)
        if not call.name:
            return None
        return CallDelta(
            call_id=call.id or call.minted_id, name=call.name, arguments=replace_unpaired(piece)
        )

    def _find_call(
        self, delta: Mapping[str, Json], *, name: str, piece: str, reply_id: str
    ) -> StreamedCall:
        # A delta without an index continues the last call or begins another.
        index = delta.get("index")
        at = index if isinstance(index, int) else 0
        call = self._current.get(at)
        if call is None or not call.continues_with(_read_word(delta, "id"), name, piece):
            call = StreamedCall(minted_id=_mint_id(reply_id, len(self._calls)))
            self._calls.append(call)
            self._current[at] = call
        return call

    def list_incomplete(self) -> tuple[str, ...]:
        """Return the names of the calls that are not complete."""
        return tuple(replace_unpaired(call.name) for call in self._calls if not call.is_complete)

    def calls(self, *, protocol: str, model: str, is_cut: bool) -> Sequence[ToolCall]:
        """Return all calls; only the complete ones if the reply was cut off."""
        taken: set[str] = set()
        made = []
        for call in self._calls:
            if (is_cut and not call.is_complete) or not (call.name or call.arguments):
                continue
            call_id = _find_free_id(replace_unpaired(call.id) or call.minted_id, taken)
            data = _build_echo_fields(call)
            made.append(
                ToolCall(
                    id=call_id,
                    name=replace_unpaired(call.name),
                    input=parse_arguments(call.arguments),
                    echo=Echo(protocol=protocol, model=model, data=data) if data else None,
                )
            )
        return made


def _read_piece(arguments: Json) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else dump_compact(arguments)


def _build_echo_fields(call: StreamedCall) -> dict[str, Json]:
    """Return what encoding the call again from its parsed arguments would lose."""
    data: dict[str, Json] = {}
    parsed, written = parse_arguments(call.arguments), restore_arguments(call.arguments)
    if isinstance(parsed, dict) and dump_compact(parsed) != written:
        data[ARGUMENTS] = replace_unpaired(written)
    if call.extra is not None:
        data[EXTRA] = make_sendable(call.extra)
    return data


def _mint_id(reply_id: str, position: int) -> str:
    """Return the same id for the same reply, and a different one for another reply."""
    digest = sha256(f"{reply_id}/{position}".encode("utf-8", "replace")).hexdigest()
    return f"call_{digest[:_MINTED_CHARS]}"


def _find_free_id(wanted: str, taken: set[str]) -> str:
    free, times = wanted, 1
    while free in taken:
        times += 1
        free = encode_id(wanted, suffix=f"_{times}")
    taken.add(free)
    return free


def _read_word(data: Mapping[str, Json], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""
