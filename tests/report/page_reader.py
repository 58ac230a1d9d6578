"""Reads a page as a browser would: its elements, its attributes, its text, and whether every element is closed."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "br"}
EMPTY_DRAWN = {"line", "rect", "circle", "path", "polyline"}


class PageReader(HTMLParser):
    """The elements in order, with their attributes; the text outside styles; the ids."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(document)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in EMPTY_DRAWN, f"<{tag}/> does not close itself in HTML"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style" and data.strip():
            self.texts.append(" ".join(data.replace("\u00a0", " ").split()))

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] or "" for _, attributes in self.elements if attribute in attributes]

    @property
    def text(self) -> str:
        return "\n".join(self.texts)
