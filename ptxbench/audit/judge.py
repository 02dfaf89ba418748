"""What a number should have been, at least and at most, by the physics of the sensor that it was read from.

A sensor is linear. Of a load that drew the mean power b before a window and P within it, what is made of the
readings is

    v = s P + (1 - s) b,

with s the share of the readings' weight that lies within the window (`seen_shares`, which gives its range
over the phases of the refresh and of the calls). An energy counter that is read at the edges of a window of
length T, and was last renewed a0 before the begin and a1 before the end, gives

    E / T = P (1 - a1 / T) + b a0 / T,   a0 and a1 from its lag to its lag and refresh,

or b times what lies between the two renewals where both were before the window.

Here b is from idle to the most that a board draws, or what a log shows of it, and P too. All P that fit are
the interval. In a window of a log, whose power nobody calls even, it may rise or fall evenly by all of it
where the window is shorter than the sensor's mean. Where a log's last readings bound what was drawn at its
end, e, in the place of even power,

    mean power = v + (1 - s) (e - b).

No number is corrected without its interval, and a number outside of what any load gives is not explained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np

from ptxbench.analysis.throttling import HELD_DOWN
from ptxbench.audit.boards import KnownBoard, with_limit
from ptxbench.audit.claim import Before, Cause, Claim, Reason, Span, State, Verdict, Way
from ptxbench.energy.predicted_error import seen_shares
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import Float64s

# A kernel that runs again on the same board draws as much to this: it is warmer, or regulated otherwise
# (studies/sampling/seen.md).
_AGAIN = 0.01
# What is documented may be off by so much, as the running mean of an RTX 3090 is (1.1 s in place of 1 s).
_DOCUMENTED = (0.8, 1.2)
# No document gives a counter's lag; it was 7 to 11 ms where it was measured.
_COUNTER_LAG_S = 0.03
# A share below this leaves nothing to work back from.
_LEAST_SHARE = 1e-3
# Windows whose lengths agree to this are alike.
_ALIKE_LENGTH = 0.01
_REDUCE: dict[Way, Callable[[Float64s], float]] = {
    Way.MEAN: lambda values: float(values.mean()),
    Way.MEDIAN: lambda values: float(np.median(values)),
}


def judge(claim: Claim, board: KnownBoard, tolerance: float, before: Before | None = None) -> Verdict:
    """Return what is to be thought of a number.

    Args:
        claim: The number.
        board: What is known of the board and its sensors.
        tolerance: From which part on a bias matters.
        before: What the board did before each window; None: as the claim has it.
    """
    board = with_limit(board, claim.limit_w)
    if before is not None:
        claim = replace(claim, before=before)
    doubt = _cannot(claim)
    if doubt is not None:
        return Verdict(claim, State.UNKNOWN, None, None, (*claim.reasons, doubt))
    if claim.found_w is not None:
        truth: Span | None = claim.found_w
    else:
        truth = true_power(claim, board)
    if truth is None or truth.high <= 0:
        text = "no load of this board gives this number by this way: another window, source or board"
        reason = Reason(Cause.BOARD, text)
        if claim.value == 0:
            reason = Reason(Cause.ZERO, "it is zero, and no board draws nothing: nothing was read")
        return Verdict(claim, State.UNKNOWN, None, None, (*claim.reasons, reason))
    reasons = (*claim.reasons, *_reasons(claim, board, truth))
    if claim.unread:
        truth = Span(_between(truth.low, board.idle_w.low, claim), _between(truth.high, board.most_w, claim))
    truth = Span((1 - _AGAIN) * truth.low, (1 + _AGAIN) * truth.high)
    bias = _bias(claim.power_w, truth)
    state = _state(bias, tolerance)
    per_w = claim.value / claim.power_w if claim.power_w else claim.window_s.high * claim.boards
    return Verdict(claim, state, truth.scaled(abs(per_w)), bias, reasons)


def true_power(claim: Claim, board: KnownBoard) -> Span | None:
    """Return all mean powers of a board that give a claim's number; None where none does, W."""
    most_w = board.most_w
    before_w = claim.before_w
    if before_w is None:
        before_w = board.idle_w if claim.before is Before.IDLE else Span(board.idle_w.low, most_w)
    value = claim.power_w
    if claim.end_w is not None:
        parts = [
            value + _times(after, end_w) - _times(rest, b)
            for _, rest, after in _weights(claim, board)
            for b in (before_w.low, before_w.high)
            for end_w in (claim.end_w.low, min(claim.end_w.high, most_w))
        ]
    else:
        parts = []
        for own, rest, _ in _weights(claim, board):
            earlier_w = [_times(rest, b) for b in (before_w.low, before_w.high)]
            parts += [(value - part) / max(own, _LEAST_SHARE) for part in earlier_w]
            if own < _LEAST_SHARE and (1 - _AGAIN) * earlier_w[0] <= value <= (1 + _AGAIN) * earlier_w[1]:
                # All of the number is of what was before: the window may have had any power.
                parts += [board.idle_w.low, most_w]
    low_w = max(min(parts) - claim.scatter_w, 0.0 if claim.end_w else board.idle_w.low)
    high_w = min(max(parts) + claim.scatter_w, most_w)
    return Span(low_w, high_w) if low_w <= high_w else None


def _between(read_w: float, unread_w: float, claim: Claim) -> float:
    """Return the mean of what was read and of what may have been drawn where nothing was, W."""
    return (1 - claim.unread) * read_w + claim.unread * unread_w


def _times(weight: float, power_w: float) -> float:
    """Return a product; a weight of 0 leaves out a power that nothing bounds."""
    return weight * power_w if weight else 0.0


def _weights(claim: Claim, board: KnownBoard) -> Iterator[tuple[float, float, float]]:
    """Yield the weights of the window, of what was before and of its end, at the corners of the unknown."""
    assert claim.source is not None  # noqa: S101
    sensor = board.sensor(claim.source)
    for length_s in {claim.window_s.low, claim.window_s.high}:
        if claim.way is Way.COUNTER:
            lag_s = sensor.lag_s if sensor.origin != "documented" else _COUNTER_LAG_S
            ages_s = (min(sensor.lag_s, lag_s), lag_s + sensor.refresh_s + claim.poll_s)
            for first_s, last_s in product(ages_s, repeat=2):
                # A counter that stood still since before the window counts what was before alone.
                missed_s = max(last_s - length_s, 0.0)
                rest_s = max(first_s - missed_s, 0.0)
                yield max(1 - last_s / length_s, 0.0), rest_s / length_s, last_s / length_s
        else:
            for share in _shares(sensor, length_s, claim.poll_s, claim.way):
                for seen in _seen_of_uneven(claim, sensor, length_s):
                    yield seen * share, 1 - share, 1 - share


def _seen_of_uneven(claim: Claim, sensor: SensorDescription, length_s: float) -> tuple[float, ...]:
    """Return how much more or less of power that rises or falls readings show than of even power.

    In a window of length T that is shorter than the mean they weigh time t by T - D - t, with D the age of a
    value. Of a power that rises evenly from 0 to twice its mean they show 2 (T - D) / (3 T) of what they show
    of an even one, and of one that falls the rest to twice that.
    """
    if not claim.is_uneven or length_s >= sensor.averaging_s:
        return (1.0,)
    rising = 2 / 3 * max(1 - (sensor.lag_s + sensor.refresh_s) / length_s, 0.0)
    return rising, 2 - rising


def _shares(sensor: SensorDescription, length_s: float, poll_s: float, way: Way) -> tuple[float, float]:
    """Return the least and the largest share of a window in its own number."""
    # As many windows of a file are alike to a percent, a share is worked out once for them.
    rounded_s = math.exp(round(math.log(length_s) / _ALIKE_LENGTH) * _ALIKE_LENGTH)
    if sensor.origin != "documented":
        return _shares_of(sensor, rounded_s, poll_s, way)
    found = [
        _shares_of(replace(sensor, averaging_s=factor * sensor.averaging_s), rounded_s, poll_s, way)
        for factor in _DOCUMENTED
    ]
    return min(low for low, _ in found), max(high for _, high in found)


@lru_cache(maxsize=4096)
def _shares_of(sensor: SensorDescription, length_s: float, poll_s: float, way: Way) -> tuple[float, float]:
    return seen_shares(sensor, length_s, poll_s or sensor.refresh_s, _REDUCE[way])


def _cannot(claim: Claim) -> Reason | None:
    """Return why nothing can be told of a claim, None where something may."""
    if claim.way is Way.HIGHEST:
        text = "a reading is a mean over a while: what was drawn for shorter than that was higher"
        return Reason(Cause.RUNNING_MEAN, text)
    if claim.way is Way.METER:
        return Reason(Cause.METER, "an external meter's, which `ptxbench meter validate` judges beside a log")
    if claim.way is Way.UNSAID:
        return Reason(Cause.WINDOW, "the file does not say how it was read")
    if not math.isfinite(claim.power_w) or not 0 < claim.window_s.low <= claim.window_s.high < math.inf:
        return Reason(Cause.WINDOW, "the file does not say how long the window was")
    if claim.source is None:
        return Reason(Cause.WINDOW, "the file does not say which reading it is of")
    return None


def _bias(value_w: float, truth: Span) -> Span:
    low = value_w / truth.high - 1 if truth.high > 0 else math.nan
    high = value_w / truth.low - 1 if truth.low > 0 else math.inf
    return Span(low, high)


def _state(bias: Span, tolerance: float) -> State:
    if -tolerance <= bias.low and bias.high <= tolerance:
        return State.VALID
    return State.BIASED if bias.low > 0 or bias.high < 0 else State.UNKNOWN


def _reasons(claim: Claim, board: KnownBoard, truth: Span) -> Iterator[Reason]:
    """Yield what makes a number uncertain or wrong."""
    if claim.value == 0:
        yield Reason(Cause.ZERO, "the counter stood still: it was not renewed within the window")
    if claim.source is not None and claim.found_w is None:
        yield from _of_source(claim, board)
    if truth.low >= HELD_DOWN * board.limit_w:
        text = f"the board is at its limit of {board.limit_w:g} W: the clock was held down"
        yield Reason(Cause.CAPPED, text)


def _of_source(claim: Claim, board: KnownBoard) -> Iterator[Reason]:
    assert claim.source is not None  # noqa: S101
    sensor = board.sensor(claim.source)
    own = [weights[0] for weights in _weights(claim, board)]
    if claim.way is Way.COUNTER:
        text = f"the counter is renewed every {sensor.refresh_s:.3g} s, in a window of {_length(claim)}"
        yield Reason(Cause.COUNTER_REFRESH, text)
        return
    low, high = f"{100 * min(own):.0f}", f"{100 * max(own):.0f}"
    share = f"{low if low == high else f'{low} to {high}'}% of the number is of the window itself"
    if sensor.averaging_s > sensor.refresh_s:
        text = f"{claim.source} is a mean over {sensor.averaging_s:.3g} s, in a window of {_length(claim)}: "
        yield Reason(Cause.RUNNING_MEAN, text + share)
    else:
        text = (
            f"{claim.source} covers {sensor.averaging_s:.3g} s of each {sensor.refresh_s:.3g} s, in a window"
            f" of {_length(claim)}: {share}"
        )
        yield Reason(Cause.REFRESH, text)


def _length(claim: Claim) -> str:
    low_s, high_s = claim.window_s.low, claim.window_s.high
    return f"{high_s:.3g} s" if low_s == high_s else f"{low_s:.2g} to {high_s:.2g} s"
