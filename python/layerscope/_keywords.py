"""Keyword arguments that do not exist: the error names the nearest one that does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def meant(name: str, known: Collection[str]) -> str:
    """Return " (did you mean ...?)" if one of the known names is near, otherwise nothing."""
    near = get_close_matches(name, known, 1)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _names(function: Callable[..., Any], kinds: Collection[Any]) -> list[str]:
    return [name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds]


def hinting(*others: Callable[..., Any]) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Make a function refuse unknown keywords as Python does, and say which one was perhaps meant. What it passes on are keywords of `others`."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        own, passed = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY), (inspect.Parameter.KEYWORD_ONLY,)
        known = [*_names(function, own), *(name for other in others for name in _names(other, passed))]

        @functools.wraps(function)
        def checked(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            for name in keywords:
                if name not in known:
                    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}{meant(name, known)}")
            return function(*arguments, **keywords)

        return checked

    return decorate
