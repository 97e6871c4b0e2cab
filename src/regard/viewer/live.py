"""A recording in a notebook, live: the page in a frame, its questions answered by the kernel.

Three outputs are shown: what it is in words, a picture, and the widget. While the widget is live
it hides the other two. They are what is left where no widget runs: in a notebook that is not
trusted, that was opened without its kernel, or whose kernel was started anew.
"""

from __future__ import annotations

import base64
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from typing import Any, Final

from regard.errors import FileError, RegardError, UnavailableError
from regard.recording import Recording
from regard.viewer.kernel import Kernel
from regard.viewer.notebook import frame, page_title, recording_page, without_picture
from regard.viewer.opened import Opened
from regard.viewer.selfcontained import make_page
from regard.viewer.still import colours_of, picture_of
from regard.viewer.work import Pool
from regard.views.text import count

HEIGHT: Final = 720  # pixels
PACKAGE: Final = "anywidget"
_WIDGET: Final = "application/vnd.jupyter.widget-view+json"
_OUTPUT: Final = ".jp-OutputArea-child"  # one output of a cell in JupyterLab and Notebook 7
_PANEL: Final = ".lm-Panel.jp-OutputArea-output"  # a widget's output, live or not
_LIVE: Final = ".regard-live"  # its frame; see web/src/widget
_NO_WIDGET: Final = (
    "This page holds what fits into the notebook. Install regard[notebook] for a live view, which "
    "zooms into all that was recorded."
)
_AGAIN: Final = "Run the cell again for the live view; it needs the running kernel."


class View:
    """A recording, to be shown as the last line of a cell."""

    def __init__(
        self,
        recording: Recording,
        head: str | None = None,
        *,
        prompt: int = 0,
        height: int = HEIGHT,
    ) -> None:
        self._own = Recording(recording.store)  # with heads of its own: threads read them
        self._own.name = recording.name
        if head is not None or recording.prompts:
            one = recording.prompt(prompt)
            head = None if head is None else one[head].label
        self._head, self._height = head, height
        self._prompt = prompt % max(len(recording.prompts), 1)
        self._text = repr(recording)

    def __repr__(self) -> str:
        where = f", {self._head}" if self._head else ""
        return f"View({self._text}{where}); a notebook shows it, elsewhere `regard view FILE`"

    def _repr_html_(self) -> str:
        """Without a widget: the page with what it can carry; where that cannot be, the reason."""
        try:
            page = recording_page(self._own, prompt=self._prompt, head=self._head)
        except RegardError as error:
            return without_picture(self._text, str(error))
        return frame(page, self._text, height=self._height) + f"<p>{escape(_NO_WIDGET)}</p>"

    def _ipython_display_(self) -> None:
        from IPython import get_ipython
        from IPython.display import display

        if getattr(get_ipython(), "kernel", None) is None:
            print(repr(self))  # IPython in a terminal
            return
        for output in self.outputs() if find_spec(PACKAGE) else [self._page_output()]:
            display(output, raw=True)

    def _page_output(self) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def outputs(self) -> list[dict[str, Any]]:
        """By media type: the words, the picture where there is one, the widget."""
        picture, reason = self._picture
        words = "\n".join([*self._about(), *(reason or self._legend()), _AGAIN])
        after = 1 if picture is None else 2
        html = (
            f"<style>{_style(after)}</style><pre class='regard-still-{after}'>{escape(words)}</pre>"
        )
        shown: list[dict[str, Any]] = [{"text/plain": words, "text/html": html}]
        if picture is not None:
            image = base64.b64encode(picture).decode("ascii")
            shown.append({"text/plain": self._text, "image/png": image})
        about = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        return [*shown, {_WIDGET: about}]

    def _about(self) -> list[str]:
        if not self._own.prompts:
            return [self._text]
        one = self._own.prompt(self._prompt)
        size = count(one.note.tokens, "token")
        return [self._text, f"{one.title}: {size}" if one.title else size]

    def _legend(self) -> list[str]:
        """What the picture shows."""
        what = f"{self._head}, queries from top to bottom, keys across"
        every = "the map of every head, layers from top to bottom, heads across"
        scale = colours_of(self._opened, self._prompt, self._head)
        return [f"The picture: {what if self._head else every}.",
                f"Colour: {scale}; violet is low, yellow is high."]  # fmt: skip

    @cached_property
    def _opened(self) -> Opened:
        return Opened(self._own)

    @cached_property
    def _picture(self) -> tuple[bytes | None, list[str]]:
        """And in a line why there is none."""
        if not self._own.prompts:
            return None, ["No picture: there are no heads here."]
        try:
            made = picture_of(self._opened, self._prompt, self._head)
        except FileError as error:
            return None, [f"No picture: {error}"]
        return made, [] if made else ["No picture: none is stored, and computing one takes long."]

    @cached_property
    def _widget(self) -> Any:
        """One model, however often it is shown."""
        widget = _make_widget(self._height, self._text)
        kernel = Kernel([self._opened], self._page, lambda *given: widget.send(*given), _pool())
        widget.on_msg(lambda _, message, __: kernel.receive(message))
        return widget

    def _page(self) -> str:
        words = {"prompt": str(self._prompt)} if self._prompt else {}
        words |= {"view": "head", "head": self._head} if self._head else {}
        title = page_title(self._own, self._prompt, self._head)
        return make_page({"kind": "kernel", "open": words}, title=title)


def _style(after: int) -> str:
    """Hides the words and the picture where the widget that follows them is live, and the widget's
    own output, which else would say that its model was not found, where it is not."""
    words = f"{_OUTPUT}:has(.regard-still-{after})"
    place = [words + f" + {_OUTPUT}" * n for n in range(after + 1)]  # of each output
    still = [f"{place[n]}:has({f'+ {_OUTPUT} ' * (after - n)}{_LIVE})" for n in range(after)]
    gone = f"{place[after]}:has(> {_PANEL}):not(:has({_LIVE}))"
    return f"{', '.join([*still, gone])} {{ display: none; }}"


def _make_widget(height: int, title: str) -> Any:
    import anywidget
    import traitlets

    fields = {
        "_esm": _script(),
        "height": traitlets.Int(height).tag(sync=True),
        "title": traitlets.Unicode(title).tag(sync=True),
    }
    return type("RegardView", (anywidget.AnyWidget,), fields)()


def _script() -> str:
    """What runs beside the notebook: the frame, and messages between it and the kernel."""
    try:
        return (files("regard.viewer") / "static" / "widget.js").read_text("utf-8")
    except FileNotFoundError:
        raise UnavailableError(
            "the page is not part of this installation (widget.js is not there); build it with "
            "`make page` in a source checkout, or install a wheel, which carries it"
        ) from None


@cache
def _pool() -> Pool:
    """One for all views of this process."""
    return Pool()
