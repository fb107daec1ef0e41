"""A Responses server's strictness: what it would answer 400 to, in its own words.

It remembers every item it gave out, so it can tell one that is missing, moved or altered, and a
conversation that was changed behind its back. Give it each reply with `reply` before it is played.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tests.support.provider import Recorded, Reply, continues, sse, stream
from tests.support.responses_streams import Object, events
from tests.support.strict_openai import Complaint, check_head
from tests.support.strict_responses_shapes import check_shape

_CALLS = ("function_call", "custom_tool_call", "tool_search_call", "computer_call")
_ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
    "computer_call": "computer_call_output",
}


class StrictResponses:
    """Its `check` is a checker of the loopback provider."""

    def __init__(self) -> None:
        self._replies: list[tuple[str, list[Object]]] = []
        """The id and the items of each, in the order they will be played."""
        self._played: list[tuple[str, list[Object]]] = []
        self._before: Object | None = None

    def reply(self, *items: Object, stored: bool = True) -> Reply:
        """A stream of these items, and from now on part of what the server remembers.

        `stored` is whether the reply's id may be continued.
        """
        response_id = f"resp_{len(self._replies):02}"
        self._replies.append((response_id if stored else "", list(items)))
        return stream(sse(events(items, response_id=response_id)))

    def check(self, request: Recorded) -> str | None:
        try:
            check_head(request, "/v1/responses")
            body = request.json
            check_shape(body)
            known = self._continued(body)
            self._check_given(known + body["input"], is_stored=body["store"])
            _check_pairs(known + body["input"])
            self._check_complete(known + body["input"])
            self._check_prefix(body, known)
        except Complaint as complaint:
            return str(complaint)
        self._before = {**body, "input": known + body["input"]}
        if len(self._played) < len(self._replies):
            self._played.append(self._replies[len(self._played)])
        return None

    def _continued(self, body: Object) -> list[Object]:
        """What the server itself has before the input."""
        previous = body.get("previous_response_id")
        if previous is None:
            return []
        if not any(previous == response_id for response_id, _ in self._played[-1:]):
            raise Complaint(f"Previous response with id '{previous}' not found.")
        assert self._before is not None
        return [*self._before["input"], *self._played[-1][1]]

    def _check_given(self, items: Sequence[Object], *, is_stored: bool) -> None:
        given = {item["id"]: item for _, reply in self._played for item in reply if "id" in item}
        for item in items:
            own_id = item.get("id")
            if own_id is None:
                continue
            if own_id not in given:
                raise Complaint(f"Item with id '{own_id}' not found.")
            if not is_stored and item["type"] == "reasoning" and not item.get("encrypted_content"):
                raise Complaint(
                    f"Item with id '{own_id}' not found. Items are not persisted when `store` is "
                    "set to false. Try again with `store` set to true, or remove this item from "
                    "your input."
                )
            if _bare(item) != _bare(given[own_id]):
                raise Complaint(f"Item '{own_id}' is not what it was when it was given.")
        self._check_reasoning([item.get("id") for item in items], given)

    def _check_reasoning(self, ids: Sequence[str | None], given: Mapping[str, Object]) -> None:
        for _, reply in self._played:
            for thought, follower in pairwise(reply):
                if thought["type"] != "reasoning" or "id" not in follower:
                    continue
                first, second = thought["id"], follower["id"]
                if second in ids and first not in ids:
                    raise Complaint(
                        f"Item '{second}' of type '{follower['type']}' was provided without its "
                        f"required 'reasoning' item: '{first}'."
                    )
                if first in ids and ids[ids.index(first) + 1 :][:1] != [second]:
                    raise Complaint(
                        f"Item '{first}' of type 'reasoning' was provided without its required "
                        "following item."
                    )
        if ids and ids[-1] in given and given[ids[-1] or ""]["type"] == "reasoning":
            raise Complaint(
                f"Item '{ids[-1]}' of type 'reasoning' was provided without its required "
                "following item."
            )

    def _check_complete(self, items: Sequence[Object]) -> None:
        """Everything said and called is there, in order; ids may be gone where thoughts are."""
        wanted = [_gist(item) for _, reply in self._played for item in reply]
        wanted = [gist for gist in wanted if gist is not None]
        found = [gist for item in items if (gist := _gist(item)) is not None]
        # Before them may stand what another provider said.
        if found[len(found) - len(wanted) :] != wanted:
            raise Complaint(f"The replies are not what they were: {found!r}, not {wanted!r}.")

    def _check_prefix(self, body: Object, known: Sequence[Object]) -> None:
        if self._before is None:
            return
        moving = ("input", "previous_response_id", "tool_choice")
        for key in {*body, *self._before} - {*moving}:
            if not continues(key, self._before.get(key), body.get(key)):
                raise Complaint(f"'{key}' changed in the middle of the conversation.")
        searches = any(tool["type"] == "tool_search" for tool in body.get("tools", []))
        if searches and body["tools"] != self._before["tools"]:
            raise Complaint("'tools' changed, though what is found is loaded in its place.")
        before = self._before["input"]
        now = [*known, *body["input"]][: len(before)]
        if now != before:
            raise Complaint("An earlier part of 'input' changed.")


def _bare(item: Object) -> Object:
    return {key: value for key, value in item.items() if key != "status" and value is not None}


def _gist(item: Object) -> Object | None:
    """What of an item must be there even without its id: its words, or its call."""
    if item["type"] in _CALLS:
        return {key: item.get(key) for key in ("call_id", "name", "arguments", "input")}
    if item["type"] == "message" and item["role"] == "assistant":
        content = item["content"]
        text = content if isinstance(content, str) else "".join(p["text"] for p in content)
        return {"text": text, "phase": item.get("phase")}
    return None


def _check_pairs(items: Sequence[Object]) -> None:
    """Every call is answered once, by the right kind of answer, before anything else is said."""
    waiting: dict[str, Object] = {}
    answered: set[str] = set()
    is_answering = False
    for item in items:
        is_answer = item["type"] in _ANSWERS.values()
        if waiting and not is_answer and (is_answering or item.get("role") == "user"):
            break
        is_answering = is_answer
        if item["type"] in _CALLS:
            if item["call_id"] in {*waiting, *answered}:
                raise Complaint(f"Duplicate call_id '{item['call_id']}'.")
            waiting[item["call_id"]] = item
        elif is_answer:
            _check_answer(item, waiting, answered)
    for call_id in waiting:
        raise Complaint(f"No tool output found for function call {call_id}.")


def _check_answer(item: Object, waiting: dict[str, Object], answered: set[str]) -> None:
    call_id = item["call_id"]
    if call_id in answered:
        raise Complaint(f"Duplicate tool output found for function call {call_id}.")
    call = waiting.pop(call_id, {"type": ""})
    if _ANSWERS.get(call["type"]) != item["type"]:
        raise Complaint(f"No tool call found for function call output with call_id {call_id}.")
    if item.get("caller") != call.get("caller"):
        raise Complaint(f"The output of {call_id} names another caller than the call.")
    answered.add(call_id)
