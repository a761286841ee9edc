"""Whatever the README points at is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = sorted({link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")})


def heading_anchors() -> set[str]:
    titles = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    return {"#" + re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("link", LINKS)
def test_every_link_leads_somewhere(link: str) -> None:
    assert link in heading_anchors() if link.startswith("#") else (ROOT / link).is_file()
