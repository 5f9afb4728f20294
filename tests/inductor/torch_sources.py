"""Fetches single source files out of the wheels of torch and torch_npu, which are huge.

A wheel is a zip file: its directory and a few members are a few MB, and an index
answers requests for parts of a file, as pip itself uses them to read metadata.
"""

import base64
import functools
import io
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from html.parser import HTMLParser
from pathlib import Path

JSON = "application/vnd.pypi.simple.v1+json"
BLOCK = 1 << 18


def read_sources(version, modules, package="torch"):
    """Return the text of modules of a version of a package, by name of the module.

    They are kept in the cache folder of the user. A module that the version lacks is
    None.
    """
    folder = cache_folder() / f"{package}-{version}"
    missing = [name for name in modules if not path_of(folder, name).exists()]
    if missing:
        fetch(version, missing, folder, package)
    texts = {name: path_of(folder, name).read_text("utf-8") for name in modules}
    return {name: text or None for name, text in texts.items()}


def cache_folder():
    """Return the folder that keeps what was fetched."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "fasta_learn" / "tests"


def path_of(folder, module):
    return folder / f"{module}.py"


def fetch(version, modules, folder, package="torch"):
    """Write the text of modules into a folder; of those that are not there, nothing."""
    errors = []
    for index in find_indexes():
        try:
            url = find_wheel(index, version, package)
            with zipfile.ZipFile(open_remote(url)) as wheel:
                known = set(wheel.namelist())
                for module in modules:
                    name = module.replace(".", "/") + ".py"
                    data = wheel.read(name) if name in known else b""
                    write_whole(path_of(folder, module), data)
            return
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            errors.append(f"{hide_password(index)}: {type(error).__name__}: {error}")
    raise LookupError(
        f"The sources of {package} {version} can't be fetched: it is unknown whether "
        "the integration fits that version. Needed is a package index that pip is "
        f"configured with (PIP_INDEX_URL), or the files in {folder}. "
        f"What was tried: {'; '.join(errors)}"
    )


def write_whole(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


@functools.cache
def pip_settings():
    """Return what pip is configured with; the environment wins over files."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    )
    pairs = [line.split("=", 1) for line in done.stdout.splitlines() if "=" in line]
    pairs.sort(key=lambda pair: pair[0].startswith(":env:"))
    return {name.rpartition(".")[2]: value.strip("'\"") for name, value in pairs}


def find_indexes():
    """Return the addresses of package indexes, that of pip first."""
    settings = pip_settings()
    main = settings.get("index-url", "https://pypi.org/simple")
    others = settings.get("extra-index-url", "").split()
    return [index for index in (main, *others) if index.startswith("http")]


def find_wheel(index, version, package="torch"):
    """Return the address of a wheel; the smallest where sizes are known."""
    page = f"{index.rstrip('/')}/{package.replace('_', '-')}/"
    with request(page, Accept=f"{JSON}, text/html;q=0.1") as answer:
        text, kind = answer.read().decode(), answer.headers.get("Content-Type", "")
    if "json" in kind:
        files = [
            (f.get("size") or 0, f["filename"], f["url"])
            for f in json.loads(text)["files"]
        ]
    else:
        files = links_of(text)
    wheels = [
        (size, urllib.parse.urljoin(page, url))
        for size, name, url in files
        if name.startswith(f"{package}-{version}-") and name.endswith(".whl")
    ]
    if not wheels:
        raise ValueError(f"there is no wheel of {package} {version}")
    return min(wheels)[1]


def links_of(page):
    """Return (0, name, address) of each link of a page."""

    class Links(HTMLParser):
        found = []

        def handle_starttag(self, tag, attrs):
            if tag == "a" and (url := dict(attrs).get("href")):
                path = urllib.parse.urlsplit(url).path
                self.found.append(
                    (0, urllib.parse.unquote(path.rpartition("/")[2]), url)
                )

    parser = Links()
    parser.found = []
    parser.feed(page)
    return parser.found


def request(url, **headers):
    """Open an address, three times if need be."""
    parts = urllib.parse.urlsplit(url)
    if parts.username:
        names = (parts.username, parts.password or "")
        pair = ":".join(map(urllib.parse.unquote, names))
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        url = hide_password(url)
    context = ssl.create_default_context()
    if cert := pip_settings().get("cert"):
        context.load_verify_locations(cert)
    for tries_left in (2, 1, 0):
        try:
            return urllib.request.urlopen(
                urllib.request.Request(url, headers=headers),
                timeout=60,
                context=context,
            )
        except urllib.error.HTTPError:
            raise
        except OSError:
            if not tries_left:
                raise


def hide_password(url):
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def open_remote(url):
    """Open a file of a server, of which only the parts that are read are fetched.

    A server that does not answer requests for parts sends the whole file.
    """
    with request(url, Range="bytes=0-0") as answer:
        if answer.status != 206:
            return io.BytesIO(answer.read())
        size = int(answer.headers["Content-Range"].rpartition("/")[2])
    return io.BufferedReader(RemoteFile(url, size), BLOCK)


class RemoteFile(io.RawIOBase):
    """A file of a server that answers requests for parts."""

    def __init__(self, url, size):
        self.url, self.size, self.position, self.n_requests = url, size, 0, 0

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.position

    def seek(self, offset, whence=io.SEEK_SET):
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}
        self.position = start[whence] + offset
        return self.position

    def readinto(self, buffer):
        end = min(self.position + len(buffer), self.size)
        if end <= self.position:
            return 0
        with request(self.url, Range=f"bytes={self.position}-{end - 1}") as answer:
            data = answer.read()
        self.n_requests += 1
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)
