"""Every image is upright RGB from where it enters, or refused in one line that names it."""

import base64
import contextlib
import http.server
import io
import os
import socketserver
import struct
import threading
import time
import zlib

import pytest
from PIL import Image

from openrlhf.images import ImageError, read_image, read_images
from openrlhf.types import EncodedImage
from tests.pictures import file_of, plain


def pixel(image: EncodedImage, x: int = 0, y: int = 0):
    return image.decode().getpixel((x, y))


def two_halves(mode: str = "RGB") -> Image.Image:
    """8 wide and 4 high: the left half red, the right half blue."""
    image = plain("blue", 8, 4)
    image.paste("red", (0, 0, 4, 4))
    return image.convert(mode)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_plain_file_keeps_its_bytes(kind, tmp_path):
    data = file_of(plain(), kind)
    (tmp_path / "a").write_bytes(data)
    assert read_image("a", tmp_path) == EncodedImage(data)


def test_every_way_in_gives_the_same_picture(tmp_path):
    data = file_of(two_halves())
    (tmp_path / "a.png").write_bytes(data)
    address = "data:image/png;base64," + base64.b64encode(data).decode()
    ways = [tmp_path / "a.png", str(tmp_path / "a.png"), f"file://{tmp_path}/a.png", data, bytearray(data), address]
    ways += [{"bytes": data, "path": None}, {"bytes": None, "path": str(tmp_path / "a.png")}, two_halves()]
    ways.append(read_image(data))
    pictures = [read_image(way).decode() for way in ways]
    assert {(p.mode, p.size, p.tobytes()) for p in pictures} == {("RGB", (8, 4), two_halves().tobytes())}


def test_relative_paths_start_beside_the_data_then_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.png").write_bytes(file_of(plain("red")))
    (tmp_path / "a.png").write_bytes(file_of(plain("blue")))
    (tmp_path / "b.png").write_bytes(file_of(plain("lime")))
    monkeypatch.chdir(tmp_path)
    assert pixel(read_image("a.png", tmp_path / "data")) == (255, 0, 0)
    assert pixel(read_image("b.png", tmp_path / "data")) == (0, 255, 0)


def test_an_image_is_fetched(tmp_path):
    (tmp_path / "a.png").write_bytes(file_of(plain("blue")))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert pixel(read_image(f"{address}/a.png")) == (0, 0, 255)
        with pytest.raises(ImageError, match=r"/none.png: cannot be fetched: HTTP Error 404"):
            read_image(f"{address}/none.png")
        server.shutdown()


def test_exif_turns_the_picture_upright():
    # Orientation 6: row 0 of the file is the right side. Two halves side by side become two above each other.
    exif = Image.Exif()
    exif[0x0112] = 6
    image = read_image(file_of(two_halves(), exif=exif))
    assert image.decode().size == (4, 8)
    assert (pixel(image, 0, 0), pixel(image, 0, 7)) == ((255, 0, 0), (0, 0, 255))


@pytest.mark.parametrize("mode", ["P", "L", "CMYK", "1", "YCbCr"])
def test_other_modes_become_rgb(mode):
    image = two_halves().convert(mode)
    expected = image.convert("RGB").tobytes()
    assert read_image(image).decode().tobytes() == expected


def test_transparency_is_laid_on_white():
    half = plain((255, 0, 0, 128), mode="RGBA")
    red, green, blue = pixel(read_image(file_of(half)))
    assert (red, green) == (255, blue)
    assert 126 <= green <= 128  # 255 * (1 - 128/255)
    clear = plain(0, mode="P")
    clear.putpalette([10, 20, 30])
    assert pixel(read_image(file_of(clear, transparency=0))) == (255, 255, 255)


BROKEN = {
    "missing": ("/no/such.png", r"^/no/such.png: No such file or directory$"),
    "a folder": ("/", r"^/: Is a directory$"),
    "no image": (b"hello", r"^bytes: not an image"),
    "cut off": (file_of(plain("red", 200, 200), "JPEG")[:400], r"^bytes: a broken image: "),
    "too few pixels": (plain(width=1, height=1), r"1 x 1 pixels; a side needs at least 4"),
    "a thin line": (plain(width=100, height=3), r"100 x 3 pixels; a side needs at least 4"),
    "too many pixels": (file_of(plain(1, 9000, 9000, "1")), r"9000 x 9000 pixels, over the 67108864"),
    "an address that is none": ("http://127.0.0.1:1/a b.png", r"^http://127.0.0.1:1/a b.png: cannot be fetched: URL "),
    "a port that is none": ("http://127.0.0.1:99999/a.png", r"^http://127.0.0.1:99999/a.png: cannot be fetched: "),
    "text as bytes": ({"bytes": "text", "path": "a.png"}, r"^a.png: its 'bytes' are of type str, expected bytes$"),
    "a number as bytes": ({"bytes": 5}, r"^bytes: its 'bytes' are of type int, expected bytes$"),
    "an object in an object": ({"path": {"path": "a.png"}}, r"a 'path' of type dict, expected text$"),
    "the home of nobody": ("~nosuchuser/x.png", r"^~nosuchuser/x.png: .*home"),
    "not ASCII": ("data:image/png;base64,\u00e9", r"^data:image/png;base64: not base64"),
    "16 bits": (file_of(plain(7, mode="I;16")), r"mode I;16, not 8 bits per channel"),
    "no base64": ("data:image/png;base64,?", r"^data:image/png;base64: not base64"),
    "no data": ("data:image/png", r"must be data:image/...;base64"),
    "a number": (5, r"of type int"),
    "an empty object": ({}, r"no bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_bad_image_is_refused_in_one_line(name):
    value, says = BROKEN[name]
    with pytest.raises(ImageError, match=says) as caught:
        read_image(value)
    assert "\n" not in str(caught.value)


def deep_png(colour: int, channels: int) -> bytes:
    """8 x 8 pixels of 16 bits per channel, which Pillow cannot write."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = (b"\0" + b"\x12\x34" * channels * 8) * 8  # each begins with its filter, 0: none
    head = struct.pack(">IIBBBBB", 8, 8, 16, colour, 0, 0, 0)
    chunks = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def deep_tiff() -> bytes:
    """8 x 8 pixels of three channels, 16 bits each, neither compressed nor in strips."""
    bits, pixels = 8 + 2 + 12 * 9 + 4, 8 + 2 + 12 * 9 + 4 + 6
    tags = [(256, 3, 1, 8), (257, 3, 1, 8), (258, 3, 3, bits), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, pixels)]
    tags += [(277, 3, 1, 3), (278, 3, 1, 8), (279, 4, 1, 384)]
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return head + struct.pack("<I", 0) + struct.pack("<HHH", 16, 16, 16) + b"\x34\x12" * 192


DEEP = {
    "PNG RGB": deep_png(2, 3),
    "PNG grey with alpha": deep_png(4, 2),
    "PNG RGBA": deep_png(6, 4),
    "TIFF": deep_tiff(),
    "PPM": b"P6 8 8 65535\n" + b"\x12\x34" * 192,
    "SGI": file_of(plain(), "SGI", bpc=2),
}


@pytest.mark.parametrize("name", DEEP)
def test_16_bits_that_pillow_would_cut_are_refused(name):
    with pytest.raises(ImageError, match=r"mode (RGB|RGBA), not 8 bits per channel in the file; convert it first"):
        read_image(DEEP[name])


@pytest.mark.parametrize("kind", ["PPM", "SGI", "TIFF", "BMP", "WEBP"])
def test_8_bits_of_other_formats_pass(kind):
    assert read_image(file_of(plain("red"), kind)).decode().size == (30, 20)


def test_what_is_given_in_memory_is_bounded_and_checked_too(monkeypatch):
    cut_off = Image.open(io.BytesIO(file_of(plain("red", 200, 200), "JPEG")[:-200]))
    with pytest.raises(ImageError, match=r"^an image in memory: a broken image: "):
        read_image(cut_off)
    data = file_of(plain())
    monkeypatch.setattr("openrlhf.images.MAX_BYTES", len(data) - 1)
    address = "data:image/png;base64," + base64.b64encode(data).decode()
    for value, source in [(data, "bytes"), ({"bytes": data, "path": "a.png"}, "a.png"), (address, address[:21])]:
        with pytest.raises(ImageError, match=rf"^{source}: over the {len(data) - 1} bytes"):
            read_image(value)


def test_a_file_is_bounded(tmp_path, monkeypatch):
    data = file_of(plain())
    (tmp_path / "a.png").write_bytes(data)
    monkeypatch.setattr("openrlhf.images.MAX_BYTES", len(data) - 1)
    with pytest.raises(ImageError, match=rf"^a.png: over the {len(data) - 1} bytes"):
        read_image("a.png", tmp_path)


def test_a_server_that_answers_garbage_is_one_line():
    class Garbage(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1000)
            self.request.sendall(b"what?\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Garbage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ImageError, match=r"/a.png: cannot be fetched: what\?$"):
            read_image(f"http://127.0.0.1:{server.server_address[1]}/a.png")
        server.shutdown()


def served(*parts: bytes, pause: float = 0.0, times: int = 1):
    """A server that answers so many requests with these bytes, and a pause before each."""

    class Drip(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1000)
            with contextlib.suppress(OSError):  # who asked has left
                for part in parts:
                    time.sleep(pause)
                    self.request.sendall(part)

    server = socketserver.TCPServer(("127.0.0.1", 0), Drip)
    threading.Thread(target=lambda: [server.handle_request() for _ in range(times)], daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/a.png"


def test_a_download_has_a_time_limit_even_where_bytes_keep_coming(monkeypatch):
    monkeypatch.setattr("openrlhf.images.DOWNLOAD_S", 0.3)
    server, address = served(b"HTTP/1.0 200 OK\r\n\r\n", *[b"x"] * 40, pause=0.05)
    started = time.monotonic()
    with server, pytest.raises(ImageError, match=r"/a.png: cannot be fetched: not whole after 0.3 s$"):
        read_image(address)
    assert time.monotonic() - started < 1.5  # all of it would take 2 s


def test_a_connection_that_breaks_off_is_told(monkeypatch):
    monkeypatch.setattr("openrlhf.images.PAUSES_S", (0.01, 0.01))
    server, address = served(b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nhalf", times=3)
    with server, pytest.raises(ImageError, match=r"cannot be fetched: IncompleteRead\(4 bytes read, 5 more"):
        read_image(address)


@contextlib.contextmanager
def answering(*codes: int):
    """(address, asked) of a server that gives these answers in turn, and the last again; `asked` are its paths."""
    asked, left = [], list(codes)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            code = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(code)
            if code == 302:
                self.send_header("Location", "ftp://secret@elsewhere/a.png?token=secret")
            self.end_headers()
            self.wfile.write(file_of(plain("red")) if code == 200 else b"")

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize(
    ("codes", "tries", "says"),
    [
        ((429, 503, 200), 3, None),
        ((500,), 3, "HTTP Error 500: Internal Server Error"),  # one try, and one after either pause
        ((404, 200), 1, "HTTP Error 404: Not Found"),
        ((403, 200), 1, "HTTP Error 403: Forbidden"),
    ],
)
def test_a_server_that_is_busy_is_asked_again(codes, tries, says, monkeypatch):
    monkeypatch.setattr("openrlhf.images.PAUSES_S", (0.01, 0.01))
    with answering(*codes) as (address, asked):
        if says is None:
            assert pixel(read_image(f"{address}/a.png")) == (255, 0, 0)
        else:
            with pytest.raises(ImageError, match=f"cannot be fetched: {says}$"):
                read_image(f"{address}/a.png")
    assert len(asked) == tries


def test_a_server_that_cannot_be_reached_is_tried_again(monkeypatch):
    monkeypatch.setattr("openrlhf.images.PAUSES_S", (0.01, 0.02))
    slept = []
    monkeypatch.setattr("openrlhf.images.time.sleep", slept.append)
    with pytest.raises(ImageError, match="Connection refused"):
        read_image("http://127.0.0.1:1/a.png")
    assert slept == [0.01, 0.02]
    with pytest.raises(ImageError, match="cannot be fetched"):
        read_image("http:///a.png")  # no host at all
    assert slept == [0.01, 0.02]


def test_pauses_between_tries_end_with_the_time_of_a_download(monkeypatch):
    monkeypatch.setattr("openrlhf.images.DOWNLOAD_S", 0.5)  # the first pause is 1 s
    with answering(503) as (address, asked), pytest.raises(ImageError, match="HTTP Error 503"):
        read_image(f"{address}/a.png")
    assert len(asked) == 1


def test_an_address_is_fetched_once_where_it_is_remembered():
    fetched = {}
    with answering(200) as (address, asked):
        first = read_image(f"{address}/a.png", fetched=fetched)
        assert read_image({"bytes": None, "path": f"{address}/a.png"}, fetched=fetched) is first
        read_image(f"{address}/a.png?size=2", fetched=fetched)
        read_image(f"{address}/a.png")
    assert asked == ["/a.png", "/a.png?size=2", "/a.png"]


SECRET = [
    "{}/a.png?token=secret",
    "{}/a b.png?token=secret",
    "{}/a.png?token=secret#secret",
    "HTTP://user:secret@{}/a.png",
    "http://user:secret@[::1/a.png",
    "http://user%40secret@here/a.png",
]


@pytest.mark.parametrize("value", SECRET)
@pytest.mark.parametrize("code", [404, 302])
def test_secrets_of_an_address_are_not_told(value, code, monkeypatch):
    monkeypatch.setattr("openrlhf.images.PAUSES_S", ())
    with answering(code) as (address, _):
        value = value.format(address if value.startswith("{}") else address.removeprefix("http://"))
        with pytest.raises(ImageError) as caught:
            read_image(value)
    assert "secret" not in str(caught.value)
    assert "/a" in str(caught.value)


def test_the_source_of_a_fetched_image_has_no_secrets():
    with answering(200) as (address, _):
        assert read_image(f"{address}/a.png?token=secret").source == f"{address}/a.png"
    assert read_image({"bytes": file_of(plain()), "path": "https://u:p@h/a.png?t=s"}).source == "https://h/a.png"


def test_schemes_are_told_by_either_case_and_file_addresses_are_decoded(tmp_path):
    data = file_of(plain("red"))
    (tmp_path / "a b.png").write_bytes(data)
    encoded = base64.b64encode(data).decode()
    for value in (
        f"file://{tmp_path}/a%20b.png",
        f"FILE://localhost{tmp_path}/a%20b.png",
        f"file:{tmp_path}/a b.png",
        f"DATA:image/png;BASE64,{encoded}",
    ):
        assert pixel(read_image(value)) == (255, 0, 0), value
    with answering(200) as (address, _):
        assert pixel(read_image(address.replace("http", "HTTP") + "/a.png")) == (255, 0, 0)


def test_a_pipe_or_a_device_is_refused_unopened(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    for name in ("a.png", "/dev/zero"):
        with pytest.raises(ImageError, match=rf"^{name}: not a regular file$"):
            read_image(name, tmp_path)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "TIFF"])
def test_animated_and_paged_images_are_refused(kind):
    data = file_of(plain("red"), kind, save_all=True, append_images=[plain("blue")])
    with pytest.raises(ImageError, match="animated, or of several pages"):
        read_image(data)
    read_image(file_of(plain("red"), kind))


def test_one_several_or_none():
    data = file_of(plain())
    assert read_images(None) == ()
    assert read_images(data) == (EncodedImage(data),)
    assert len(read_images([data, data])) == 2
