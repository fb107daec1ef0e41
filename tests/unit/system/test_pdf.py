import base64
import io
from pathlib import Path

import pytest

from agentcli.providers.catalog import resolve
from agentcli.providers.normalize import show_document
from agentcli.providers.transport import find_dialect
from agentcli.system.pdf import READ_BYTES, PdfRefused, read_pdf
from agentcli.types.messages import Document, Text, UserMessage
from agentcli.types.provider import Request
from agentcli.ui.images import attach_mentioned_images
from agentcli.ui.repl.mentions import attach
from tests.support.pdf import make_pdf
from tests.support.sdk_types import load_request_type

pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")

PAGES = ("One", "Two", "Three", "Four")


def encrypt(data: bytes, password: str) -> bytes:
    writer, out = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def texts(file: str) -> list[str]:
    reader = pypdf.PdfReader(io.BytesIO(base64.b64decode(file)))
    return [page.extract_text() for page in reader.pages]


def test_chosen_pages_are_text_and_a_file_of_their_own() -> None:
    data = make_pdf(*PAGES)
    found = read_pdf(data, first=2, limit=2)
    assert found.text == "[page 2 of 4]\nTwo\n\n[page 3 of 4]\nThree"
    assert (found.first, found.last, found.count) == (2, 3, 4)
    assert texts(found.file) == ["Two", "Three"]
    found = read_pdf(data, first=-2, limit=100)
    assert (found.first, found.last, found.text) == (
        *(3, 4),
        "[page 3 of 4]\nThree\n\n[page 4 of 4]\nFour",
    )
    assert texts(found.file) == ["Three", "Four"]
    assert read_pdf(data, first=-9, limit=1).texts == ("One",)
    whole = read_pdf(data, limit=100)
    assert base64.b64decode(whole.file) == data
    assert not read_pdf(make_pdf("", ""), limit=9).has_text


def test_pdf_that_cannot_be_read_is_refused_in_words() -> None:
    data = make_pdf("Secret")
    for wrong, words in {
        encrypt(data, "password"): "is encrypted: without its password nobody can read it",
        b"%PDF-1.7 nonsense": "is broken",
        b"x" * (READ_BYTES + 1): "is larger than 50 MB",
    }.items():
        with pytest.raises(PdfRefused, match=words):
            read_pdf(wrong, limit=9)
    with pytest.raises(PdfRefused, match="has 1 pages, and page 5 is past the end"):
        read_pdf(data, first=5, limit=5)


def test_pdf_without_a_user_password_is_sent_without_its_encryption() -> None:
    found = read_pdf(encrypt(make_pdf("Open"), ""), limit=9)
    assert found.text == "[page 1 of 1]\nOpen"
    assert texts(found.file) == ["Open"]


def test_mention_attaches_the_pages_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "spec.pdf").write_bytes(make_pdf(*PAGES))
    (tmp_path / "locked.pdf").write_bytes(encrypt(make_pdf("x"), "password"))
    for attached in (
        attach("read @spec.pdf#2-3.", tmp_path),
        attach("read @spec.pdf:2-3", tmp_path),
        attach_mentioned_images("read @spec.pdf#2-3", tmp_path),
    ):
        label, document = attached.parts
        assert label == "[spec.pdf · pages 2-3 of 4]"
        assert attached.notes == ("attached [spec.pdf · pages 2-3 of 4]",)
        assert isinstance(document, Document)
        assert (document.pages, texts(document.data)) == (2, ["Two", "Three"])
    refused = attach("read @locked.pdf", tmp_path)
    assert refused.notes == (
        "not attached: locked.pdf is encrypted: without its password nobody can read it",
    )
    assert attach("see @spec.pdf#9", tmp_path).notes == (
        "not attached: spec.pdf has 4 pages, and page 9 is past the end",
    )


DOCUMENT = Document(name="spec.pdf", data="JVBERg==", text="[page 1 of 1]\nOne", pages=1)
SENT = {
    "anthropic": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        "title": "spec.pdf",
    },
    "openai-responses": {
        "type": "input_file",
        "filename": "spec.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    },
    "gemini": {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
    "gemini-interactions": {
        "type": "document",
        "mime_type": "application/pdf",
        "data": "JVBERg==",
    },
}


@pytest.mark.parametrize("protocol", SENT)
def test_document_goes_to_providers_that_take_it(protocol: str) -> None:
    model = resolve(f"{protocol.removesuffix('-responses')}/m")
    assert show_document(DOCUMENT, model) is DOCUMENT
    message = UserMessage(content=(Text(text="read"), DOCUMENT))
    request = Request(model="m", system="", messages=(message,), tools=())
    body = find_dialect(protocol).encode(request, model)
    assert repr(SENT[protocol])[1:-1] in repr(body)
    if protocol in ("anthropic", "openai-responses"):
        load_request_type(protocol).validate_python({**body, "stream": True})


@pytest.mark.parametrize("provider", ["openai-chat", "ollama"])
def test_document_is_text_for_other_models(provider: str) -> None:
    model = resolve(f"{provider}/m")
    assert show_document(DOCUMENT, model) == Text(text=DOCUMENT.text)
    scanned = Document(name="scan.pdf", data="JVBERg==", text="", pages=3)
    unseen = show_document(scanned, model)
    assert isinstance(unseen, Text)
    assert unseen.text == "[scan.pdf was here, without text. This model cannot see it.]"
