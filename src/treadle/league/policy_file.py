"""A policy from a Python file: `my.py:factory`, for anybody who has no package yet."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Self

from treadle.core.errors import InvalidInputError, PolicyError
from treadle.policies import registry
from treadle.policies.registry import Factory


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A file and the factory in it."""

    path: str
    factory: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `my.py:factory`."""
        path, _, factory = text.rpartition(":")
        if not path.endswith(".py") or not factory.isidentifier():
            raise InvalidInputError(
                f"policy file {text!r} is not understood; expected FILE.py:FACTORY"
            )
        if not Path(path).is_file():
            raise InvalidInputError(f"{path} does not exist; check the path of the policy file")
        return cls(str(Path(path).resolve()), factory)

    @property
    def policy(self) -> str:
        """The policy's name: the factory's, with hyphens, as built-in ones have it."""
        return self.factory.strip("_").replace("_", "-")

    def load(self) -> Factory:
        """Run the file and find the factory."""
        name = f"treadle_policy_file_{Path(self.path).stem}"
        spec = spec_from_file_location(name, self.path)
        assert spec is not None, f"{self.path} is a Python file"
        assert spec.loader is not None, f"{self.path} is a Python file"
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their own module up
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # A third party's file may raise anything.
            raise PolicyError(f"{self.path} cannot be loaded: {error!r}") from error
        make = getattr(module, self.factory, None)
        if not callable(make):
            raise InvalidInputError(f"{self.path} has no function {self.factory}")
        return make  # type: ignore[no-any-return]


@contextmanager
def offered(files: Sequence[PolicyFile]) -> Iterator[None]:
    """Within this block, the policies of these files have names."""
    with ExitStack() as stack:
        for file in files:
            stack.enter_context(registry.offered(file.policy, file.load()))
        yield
