import io
import os
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import torch_sources
from torch_sources import read_sources

MODULES = ("torch.part", "torch.missing")
NAME = "torch-9.8.7-cp311-none-any.whl"


class Index(BaseHTTPRequestHandler):
    """A package index with one wheel of torch."""

    wheel = b""
    knows_ranges = True
    requests = []

    def do_GET(self):
        self.requests.append(self.headers["Range"])
        if self.path != f"/files/{NAME}":
            links = f'<a href="/files/{NAME}#sha256=0">x</a><a href="/other.whl">y</a>'
            return self.answer(200, links.encode(), "text/html")
        asked = self.headers["Range"]
        if asked is None or not self.knows_ranges:
            return self.answer(200, self.wheel)
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        part = self.wheel[first : last + 1]
        place = f"bytes {first}-{first + len(part) - 1}/{len(self.wheel)}"
        return self.answer(206, part, place=place)

    def answer(self, status, body, kind="application/octet-stream", place=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if place:
            self.send_header("Content-Range", place)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Start an index that pip is configured with."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("torch/lib/large.so", os.urandom(3_000_000))
        wheel.writestr("torch/part.py", "value = 1\n")
    monkeypatch.setattr(Index, "wheel", file.getvalue())
    monkeypatch.setattr(Index, "requests", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    torch_sources.pip_settings.cache_clear()
    yield Index
    torch_sources.pip_settings.cache_clear()
    server.shutdown()
    server.server_close()
    thread.join()


def fetched_bytes(index):
    """How much of the wheel the requests ask for."""
    parts = [r.removeprefix("bytes=").split("-") for r in index.requests if r]
    return sum(int(last) - int(first) + 1 for first, last in parts)


def test_only_parts_of_a_wheel_are_fetched(index):
    found = read_sources("9.8.7", MODULES)
    assert found == {"torch.part": "value = 1\n", "torch.missing": None}
    assert fetched_bytes(index) < 1_000_000


def test_server_that_knows_no_parts_sends_all(index, monkeypatch):
    monkeypatch.setattr(index, "knows_ranges", False)
    assert read_sources("9.8.7", MODULES)["torch.part"] == "value = 1\n"


def test_what_was_fetched_is_kept(index):
    read_sources("9.8.7", MODULES)
    n_requests = len(index.requests)
    read_sources("9.8.7", MODULES)
    assert len(index.requests) == n_requests


def test_missing_version_is_an_error_that_says_what_to_do(index):
    with pytest.raises(LookupError) as caught:
        read_sources("1.2.3", MODULES)
    assert "there is no wheel of torch 1.2.3" in str(caught.value)
    assert "PIP_INDEX_URL" in str(caught.value)
