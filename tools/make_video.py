"""Films the demo's report while both passes play: what happens to the caller, first with stock Pipecat, then with us.

Needs a Chromium (`apt-get install chromium`) and the `dev` extra. Run from the checkout, on a machine that is not busy:

    make demo ARGS="--fast --report /tmp/report.html"
    .venv/bin/python tools/make_video.py /tmp/report.html docs/images/demo.mp4

The film is silent: the caller's words and the bot's are its captions, word by word at the time they were heard.
"""

from __future__ import annotations

import argparse
import shutil
from base64 import b64decode
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
from av.video.frame import PictureType
from playwright.sync_api import Page, sync_playwright

WIDTH, HEIGHT = 1200, 820
# The summary to read; then each pass until the interrupted list was answered about; the summary again.
SUMMARY_SECS = 6.0
PASS_SECS = {"Stock": 40.0, "Plugin": 38.0}
FRAMES_PER_SEC = 12
# x264's scale, smaller is better: text stays sharp, and a minute and a half takes about a megabyte.
QUALITY = "30"
# Below the timeline the captions would be out of the picture.
CAPTION_STYLE = """
#caption { position: fixed; inset: auto 0 0; z-index: 9; padding: 14px 44px 18px; min-height: 4.2em;
  background: var(--paper); border-top: 1px solid currentColor; }
"""


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture of the page, and when it was taken."""

    at_secs: float
    jpeg: bytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="a report of `voicectx demo`")
    parser.add_argument("film", type=Path, help="where the film goes, an .mp4")
    args = parser.parse_args()
    _encode(_filmed(args.report.resolve()), args.film)
    print(f"{args.film}: {args.film.stat().st_size / 1e6:.1f} MB")


def _filmed(report: Path) -> list[Shot]:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("make_video: no Chromium here: apt-get install chromium")
    shots: list[Shot] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(report.as_uri())
        page.add_style_tag(content=CAPTION_STYLE)
        devtools = page.context.new_cdp_session(page)

        def keep(event: dict[str, Any]) -> None:
            shots.append(Shot(event["metadata"]["timestamp"], b64decode(event["data"])))
            devtools.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

        devtools.on("Page.screencastFrame", keep)
        devtools.send("Page.startScreencast", {"format": "jpeg", "quality": 90, "everyNthFrame": 4})
        _act(page)
        devtools.send("Page.stopScreencast")
        browser.close()
    return shots


def _act(page: Page) -> None:
    """What a reader of the report would do."""
    page.wait_for_timeout(SUMMARY_SECS * 1000)
    # From ten seconds on, the line drops and the list is interrupted; at this scale both fit the window.
    page.locator("#jumps").evaluate("e => window.scrollTo({top: e.offsetTop - 20, behavior: 'smooth'})")
    page.wait_for_timeout(1500)
    for name, secs in PASS_SECS.items():
        button = page.get_by_text(f"▶ {name}", exact=True)
        button.click()
        page.wait_for_timeout(secs * 1000)
        page.get_by_text("■ Stop", exact=True).click()
        page.wait_for_timeout(800)
    page.evaluate("window.scrollTo({top: 0, behavior: 'smooth'})")
    page.wait_for_timeout(SUMMARY_SECS * 1000)


def _encode(shots: list[Shot], film: Path) -> None:
    """Into what every browser and player shows, at a steady rate: a picture stays until the next one."""
    with av.open(str(film), "w", options={"movflags": "+faststart"}) as target:
        stream = target.add_stream(
            "libx264", rate=FRAMES_PER_SEC, options={"crf": QUALITY, "preset": "medium", "tune": "animation"}
        )
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        begin_secs, number = shots[0].at_secs, 0
        for shot, following in pairwise(shots):
            if (following.at_secs - begin_secs) * FRAMES_PER_SEC <= number:
                continue
            picture = next(av.open(BytesIO(shot.jpeg)).decode(video=0)).reformat(WIDTH, HEIGHT, "yuv420p")
            while (following.at_secs - begin_secs) * FRAMES_PER_SEC > number:
                picture.pts, picture.time_base = number, Fraction(1, FRAMES_PER_SEC)
                # A JPEG says of itself that it is a key frame.
                picture.pict_type = PictureType.NONE
                target.mux(stream.encode(picture))
                number += 1
        target.mux(stream.encode())


if __name__ == "__main__":
    main()
