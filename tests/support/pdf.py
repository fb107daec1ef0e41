"""Small PDFs, made by hand."""

import io


def make_pdf(*pages: str) -> bytes:
    """Return a PDF with a line of text on each page; an empty text for a page without any."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for text in pages:
        drawing = f"BT /F1 12 Tf 10 10 Td ({text}) Tj ET".encode() if text else b""
        objects += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (len(objects) + 2),
            b"<</Length %d>>stream\n%s\nendstream" % (len(drawing), drawing),
        ]
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, one in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj%s endobj\n" % (number, one))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer<</Size %d/Root 1 0 R>>\n" % (len(objects) + 1))
    out.write(b"startxref\n%d\n%%%%EOF" % start)
    return out.getvalue()
