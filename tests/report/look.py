"""Take screenshots of reports in headless Chromium, to be looked at.

It needs Chromium, such as Debian's package ``chromium``, and no network::

    python tests/report/look.py FOLDER JOURNAL|RESULTS|STATISTICS [...]

For each file FOLDER then holds the page, and pictures of it in light and dark on a wide
screen and in light on a narrow one. The exit code is 1 if a page asks for something, if
it writes to the console, or if a narrow screen has to be scrolled sideways.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fasta_learn.report import read_facts, to_html

# Name, width and height of the window in CSS pixels, whether it is dark.
LOOKS = (("light", 1000, 4200, False), ("dark", 1000, 4200, True))
NARROW = 360


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit(
        "Chromium is missing; install it first (apt-get install chromium)."
    )


def run(chromium, page, *options):
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run(
            [
                chromium, "--headless", "--no-sandbox", "--disable-gpu",
                "--hide-scrollbars", "--enable-logging=stderr",
                f"--user-data-dir={profile}", *options, page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )  # fmt: skip


def narrow_frame(page, html):
    """Write a page that shows another in a narrow frame, and measures it.

    A window of Chromium can't be narrower than 500 pixels.
    """
    frame = page.with_name(f"{page.stem}-narrow.html")
    # Without its policy, so that the probe may run in it.
    html = re.sub(r"<meta http-equiv[^>]*>", "", html)
    probe = (
        "<script>onload=()=>{let d=document.documentElement;"
        "console.log('sideways '+(d.scrollWidth-d.clientWidth))}</script>"
    )
    inner = page.with_name(f"{page.stem}-probe.html")
    inner.write_text(html.replace("</body>", f"{probe}</body>"), "utf-8")
    frame.write_text(
        f'<body style="margin:0"><iframe src="{inner.name}" style="border:0" '
        f'width="{NARROW}" height="6000"></iframe>'
    )
    return frame


def look(chromium, path, folder):
    page = folder / f"{Path(path).stem}.html"
    html = to_html(read_facts(path))
    page.write_text(html, "utf-8")
    problems = []
    for name, width, height, is_dark in LOOKS:
        options = [
            f"--window-size={width},{height}",
            f"--screenshot={folder / f'{page.stem}-{name}.png'}",
        ]
        if is_dark:
            options.append("--blink-settings=preferredColorScheme=0")
        log = run(chromium, page, *options).stderr
        problems += [line for line in log.splitlines() if "CONSOLE" in line]
    log = run(
        chromium,
        narrow_frame(page, html),
        f"--window-size={NARROW + 140},6000",
        f"--screenshot={folder / f'{page.stem}-narrow.png'}",
    ).stderr
    for leftover in ("narrow", "probe"):
        page.with_name(f"{page.stem}-{leftover}.html").unlink()
    (sideways,) = re.findall(r"sideways (-?\d+)", log)
    if int(sideways) > 0:
        problems.append(f"{sideways} pixels are cut off on a narrow screen")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    chromium, folder = find_chromium(), args.folder.absolute()
    failed = False
    for path in args.files:
        problems = look(chromium, path, folder)
        failed = failed or bool(problems)
        sys.stdout.write(f"{path}: {'; '.join(problems) or 'ok'}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
