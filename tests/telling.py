"""Tests that are coroutines: what runs them gives them what they are about."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path

Story = Callable[..., Awaitable[None]]
Decorator = Callable[..., Callable[[Story], Callable[..., None]]]
ROOT = Parameter("tmp_path", Parameter.POSITIONAL_OR_KEYWORD)


def told_by(tell: Callable[..., None], *, gives: int = 1) -> Decorator:
    """Makes a decorator for tests: `tell(story, tmp_path, ...)` runs them.

    gives: so many arguments of a story come from `tell`; the others are fixtures of pytest.
    """

    def options(*given: object, **chosen: object) -> Callable[[Story], Callable[..., None]]:
        def decorate(story: Story) -> Callable[..., None]:
            own = list(signature(story).parameters.values())[gives:]
            asks_root = any(each.name == ROOT.name for each in own)

            @wraps(story)
            def test(tmp_path: Path, **fixtures: object) -> None:
                found = {**fixtures, "tmp_path": tmp_path} if asks_root else fixtures
                tell(lambda *args: story(*args, **found), tmp_path, *given, **chosen)

            test.__signature__ = Signature(own if asks_root else [*own, ROOT])  # type: ignore[attr-defined]
            return test

        return decorate

    return options


def within(seconds: float) -> Callable[[Story], Callable[..., None]]:
    """Makes a test of a coroutine that is given fixtures alone."""

    def decorate(story: Story) -> Callable[..., None]:
        @wraps(story)
        def test(**fixtures: object) -> None:
            asyncio.run(asyncio.wait_for(story(**fixtures), seconds))

        test.__signature__ = signature(story)  # type: ignore[attr-defined]
        return test

    return decorate
