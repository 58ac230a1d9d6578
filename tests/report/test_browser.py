"""Pages of real runs in a real browser: nothing sticks out of a narrow window, dark mode is dark, nothing runs."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path

import pytest
from report.digits_runs import partial_run, proportions_run
from report.page_reader import PageReader
from report.small_runs import hostile_run

from glws.report import RunContent, page

CHROMIUM = Path("/usr/bin/chromium")
LIGHT, DARK = 1, 0
WIDTH = 380
LOOK = """
frame.onload = () => {
  const page = frame.contentDocument, body = getComputedStyle(page.body);
  const images = [...page.images];
  document.body.textContent = "ANSWER" + JSON.stringify({
    hidden: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    background: body.backgroundColor,
    ink: body.color,
    images: images.length,
    shown: images.filter(image => image.naturalWidth > 0).length,
    scripts: frame.contentWindow.harmed === true,
  }) + "END";
};
frame.srcdoc = PAGE;
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium")]


@pytest.fixture(scope="module")
def runs() -> list[RunContent]:
    return [proportions_run(epochs=2), partial_run(epochs=2)]


def looked_at(document: str, folder: Path, scheme: int = LIGHT) -> dict[str, object]:
    """What a browser makes of the page in a narrow frame."""
    content = json.dumps(document).replace("</", "<\\/")
    opened = '<!doctype html><meta charset="utf-8"><body>'
    frame = f'<iframe id="frame" style="width: {WIDTH}px; height: 800px; border: 0"></iframe>'
    (folder / "look.html").write_text(f"{opened}{frame}<script>{LOOK.replace('PAGE', content)}</script>")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=4000", "--dump-dom"]
    done = subprocess.run([*command, f"file://{folder}/look.html"], capture_output=True, text=True, timeout=60)
    found = re.search("ANSWER(.*)END", done.stdout)
    assert found, done.stderr[-500:]
    answer: dict[str, object] = json.loads(html.unescape(found[1]))
    return answer


def test_a_narrow_window_shows_everything_without_scrolling_sideways(runs: list[RunContent], tmp_path: Path) -> None:
    for number, document in enumerate((page(runs[:1]), page(runs).replace("<details", "<details open"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        answer = looked_at(document, folder)
        assert answer["hidden"] == 0
        assert answer["shown"] == answer["images"] == PageReader(document).tags.count("img") > 0


def test_colors_follow_the_system(runs: list[RunContent], tmp_path: Path) -> None:
    document = page(runs[:1])
    light, dark = (looked_at(document, tmp_path, scheme) for scheme in (LIGHT, DARK))
    assert (light["background"], light["ink"]) == ("rgb(255, 255, 255)", "rgb(29, 39, 51)")
    assert (dark["background"], dark["ink"]) == ("rgb(18, 22, 28)", "rgb(232, 237, 242)")


def test_hostile_names_do_not_run_even_without_the_policy(tmp_path: Path) -> None:
    document = page([hostile_run()]).replace("alert(1)", "harmed=true")
    unguarded = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", document)
    assert len(unguarded) < len(document)
    answer = looked_at(unguarded, tmp_path)
    assert answer["scripts"] is False
    assert answer["hidden"] == 0
