"""A screen as PNG, to be looked at where there is no browser."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tests.pictures.cells import Picture

SIZE = 15
MARGIN = 12
_FACES = {
    (False, False): "DejaVuSansMono.ttf",
    (True, False): "DejaVuSansMono-Bold.ttf",
    (False, True): "DejaVuSansMono-Oblique.ttf",
    (True, True): "DejaVuSansMono-BoldOblique.ttf",
}
_BRAILLE = ("⠀", "⣿")
"""A spinner's, which the monospaced face does not have."""


def write_png(picture: Picture, path: Path) -> None:
    """Raises OSError where the system has not the font."""
    fonts = {key: ImageFont.truetype(name, SIZE) for key, name in _FACES.items()}
    further = ImageFont.truetype("DejaVuSans.ttf", SIZE)
    width, height = round(fonts[False, False].getlength("M")), SIZE + 4
    size = (picture.columns * width + 2 * MARGIN, picture.rows * height + 2 * MARGIN)
    image = Image.new("RGB", size, picture.paper)
    draw = ImageDraw.Draw(image)
    for run in picture.runs:
        x, y = MARGIN + run.column * width, MARGIN + run.row * height
        if run.look.paper:
            draw.rectangle((x, y, x + run.cells * width - 1, y + height - 1), fill=run.look.paper)
        font = fonts[run.look.bold, run.look.italic]
        for index, char in enumerate(run.text):
            drawn_in = further if _BRAILLE[0] <= char <= _BRAILLE[1] else font
            draw.text((x + index * width, y + 1), char, fill=run.look.ink, font=drawn_in)
        if run.look.underline:
            draw.line((x, y + height - 3, x + run.cells * width, y + height - 3), run.look.ink)
    image.save(path)
