"""What was learned of a script: how long it takes by its arguments, and what it needs."""

from dataclasses import dataclass

from treadle.wire.jobs import described


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSpan:
    """A figure as it was seen, over all arguments."""

    runs: int
    least: float
    middle: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedEffect:
    """An argument that matters for a figure."""

    figure: str = described("length", "length, step (its seconds), memory (of a device) or steps.")
    share: float = described(0.0, "Of all that varied between runs, so much it explains, 0 to 1.")
    slope: float | None = described(
        None, "Of a number: 1 is in proportion, 0.5 as its root; None: it is a word."
    )
    # Of a word: by value, how many times the middle. Values of variables are their user's alone.
    factors: dict[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedArgument:
    name: str = described("", "--epochs; #1 is the first plain word; $LR a variable.")
    values: int = described(0, "So many were tried; if one, nothing is known of it.")
    effects: tuple[LearnedEffect, ...] = described((), "Empty: it does not matter, as far as seen.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSpeed:
    """Of jobs with the arguments of the last run."""

    devices: int
    steps_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSharing:
    """How it got on with another script on a device."""

    script: str
    user: str
    together: float | None = described(
        None, "What both did in the time of one alone, when last measured; None: it was not."
    )
    mps: bool = False
    never: bool = described(False, "They ran out of memory together and share no more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedScript:
    id: str = described("", "Names it where several scripts have one name.")
    script: str
    user: str
    runs: int = described(0, "That succeeded alone on their devices: lengths are of these.")
    cut_off: int = described(0, "Of the last, those that were stopped or failed.")
    length_s: LearnedSpan | None = None
    memory_gib: LearnedSpan | None = None  # of each device, at the peak
    busy: LearnedSpan | None = None  # share of time in which its devices worked
    cores: LearnedSpan | None = None  # beside each device
    speeds: tuple[LearnedSpeed, ...] = ()
    arguments: tuple[LearnedArgument, ...] = ()
    restart_s: float | None = described(None, "From a stop to the first step of the next start.")
    resize_s: float | None = described(None, "How long another size stalls it while it runs.")
    start_s: float | None = described(None, "From its launch to its first step.")
    freeze_s: float | None = described(None, "From the order to freeze it until it stood still.")
    thaw_s: float | None = described(None, "From the order to go on until it did.")
    suspend_s: float | None = described(None, "As freeze_s, with its GPU memory moved out.")
    resume_s: float | None = described(None, "As thaw_s, with its GPU memory moved back in.")
    sharing: tuple[LearnedSharing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedPage:
    scripts: tuple[LearnedScript, ...] = described(
        (), "Of each user the one that changed last is first; arguments and speeds if one is asked."
    )
    others: int = described(0, "That are not listed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    script: str = described("", "A name or an id.")
    user: str = described("", "Whose; empty: the caller's. Others' take the role admin.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    scripts: tuple[str, ...] = described((), "Names of those that were forgotten.")
