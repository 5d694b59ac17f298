"""Ctrl-C at the moments when Python would swallow it."""

from __future__ import annotations

import signal
import time
import types
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from neve.engine.interrupts import current_handler, give_back, take_over

_CALLBACK = "(lambda gone: press())"


class Thing:
    pass


def test_ctrl_c_while_py4j_forgets_an_object_is_heard_right_after(monkeypatch: pytest.MonkeyPatch) -> None:
    unheard: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", unheard.append)
    pressed: list[bool] = []

    def press() -> None:
        signal.raise_signal(signal.SIGINT)
        pressed.append(True)

    forget = cast(
        Callable[[object], None], eval(compile(_CALLBACK, "site-packages/py4j/java_gateway.py", "eval"), locals())
    )
    before = current_handler()
    take_over(cast(Any, types.SimpleNamespace(_gateway=None)), signal.default_int_handler)
    try:
        things = [Thing()]
        held = weakref.ref(things[0], forget)
        things.clear()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
    finally:
        give_back(before)
    assert held() is None
    assert (pressed, unheard) == ([True], [])
