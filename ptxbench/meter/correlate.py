"""Where one signal lies within another: cross-correlation over every lag at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.signal

from ptxbench.sensors.trace import Float64s

# Below this share of the template a match is too small to mean anything.
MIN_OVERLAP = 0.1
# A peak of this share of the highest is as good: noise could make it the higher one.
RIVAL_SHARE = 0.97


@dataclass(frozen=True)
class Match:
    """The best place of a template within a signal.

    Attributes:
        lag: Index in the signal of the template's first sample (negative: before its begin).
        correlation: Pearson's r of the two over their overlap, -1 to 1.
        rivals: Other lags that match about as well, as where both signals are periodic.
    """

    lag: int
    correlation: float
    rivals: int = 0


def best_match(signal: Float64s, template: Float64s, weight: Float64s, first: int, last: int) -> Match | None:
    """Find the lag at which the template explains most of the signal.

    Pearson's r of the overlapping parts is computed for all lags by FFT (masked normalized
    cross-correlation, D. Padfield, IEEE Trans. Image Process. 21(5), 2012). The lag with the
    largest r^2 times overlap is taken, so that a short chance match does not win.

    Args:
        signal: Evenly spaced samples, shape (n,).
        template: Samples of the same spacing, shape (m,).
        weight: 1 where the template counts and 0 where it is not known, shape (m,).
        first: Smallest lag to consider.
        last: Largest lag to consider.

    Returns:
        The match, None where no lag overlaps enough or nothing correlates above zero.
    """
    lags = scipy.signal.correlation_lags(len(signal), len(template))
    here = np.ones(len(signal))
    centred = signal - signal.mean()
    template = (template - np.average(template, weights=weight)) * weight
    count = _correlate(here, weight)
    sum_f, sum_ff = _correlate(centred, weight), _correlate(centred**2, weight)
    sum_g, sum_gg = _correlate(here, template), _correlate(here, template**2)
    covariance = _correlate(centred, template) - sum_f * sum_g / np.maximum(count, 1.0)
    variance_f = sum_ff - sum_f**2 / np.maximum(count, 1.0)
    variance_g = sum_gg - sum_g**2 / np.maximum(count, 1.0)
    # The template's own variance decides whether enough of its ups and downs overlap.
    usable = (lags >= first) & (lags <= last) & (count >= MIN_OVERLAP * weight.sum())
    usable &= (variance_g >= MIN_OVERLAP * float(np.sum(template**2))) & (variance_f > 1e-9 * sum_ff.max())
    if not usable.any():
        return None
    r = np.zeros(len(lags))
    r[usable] = np.clip(covariance[usable] / np.sqrt(variance_f[usable] * variance_g[usable]), -1.0, 1.0)
    score = np.where(r > 0, r * r * count, 0.0)
    best = int(np.argmax(score))
    if not r[best] > 0:
        return None
    least = RIVAL_SHARE * float(score[best])
    peaks, _ = scipy.signal.find_peaks(score, height=least, prominence=(1 - RIVAL_SHARE) * score[best])
    return Match(int(lags[best]), float(r[best]), int(np.sum(peaks != best)))


def _correlate(signal: Float64s, template: Float64s) -> Float64s:
    return np.asarray(scipy.signal.correlate(signal, template, mode="full", method="fft"), dtype=np.float64)
