"""What docs/sampling.md says in short is what the kept comparisons have."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sampling.md").read_text()
TEXT = " ".join(PAGE.split())
H200, H100, H100_6428 = (
    json.loads((ROOT / "results" / folder / "methods.json").read_text())
    for folder in ("nvidia-h200/methods", "nvidia-h100/methods", "nvidia-h100/methods-6428")
)
# Rows of the page's table, and the columns that an H100 has, too.
WAYS = (
    ("mtsm", "usage"),
    ("papi", "usage"),
    ("collector", "usage"),
    ("difference", "counter"),
    ("median", "instant"),
    ("corrected", "samples"),
    ("corrected", "usage"),
)
SCATTERED = {("difference", "counter", 0.1), ("median", "instant", 0.1)}


def point(found, method, source, length_s):
    """The comparison's row of a method on a source, for one kernel of even power."""
    key = ("constant", method, source, length_s)
    rows = [(one["kind"], one["method"], one["source"], one["requested_s"]) for one in found["points"]]
    return found["points"][rows.index(key)] if key in rows else None


def test_the_table_has_the_biases_of_the_h200():
    lines = re.findall(r"^\| .* \| `(\w+)` \| (-?[\d.]+)% \| (-?[\d.]+)% \| (-?[\d.]+)% \|$", PAGE, re.M)
    assert [source for source, *_ in lines] == [source for _, source in WAYS]
    for (method, source), (_, *cells) in zip(WAYS, lines, strict=True):
        for cell, length_s in zip(cells, (0.1, 1.0, 10.0), strict=True):
            digits = len(cell.partition(".")[2])
            assert f"{point(H200, method, source, length_s)['bias_pct']:.{digits}f}" == cell, (method, source)


def test_the_text_says_how_far_the_h100s_are_from_it():
    apart, scatter = [], []
    for method, source in WAYS:
        for length_s in (0.1, 1.0, 10.0):
            h200 = point(H200, method, source, length_s)
            others = [point(found, method, source, length_s) for found in (H100, H100_6428)]
            if (method, source, length_s) in SCATTERED:
                scatter += [one["spread_pct"] for one in (h200, *others) if one["spread_pct"] > 1]
            else:
                apart += [abs(one["bias_pct"] - h200["bias_pct"]) for one in others if one]
    assert (
        f"agree within {max(apart):.1f} points, but for the counter and the median at 0.1 s, whose repeats"
        f" scatter by {min(scatter):.0f} to {max(scatter):.0f} points"
    ) in TEXT
    said = []
    for source in ("samples", "usage"):
        for length_s in (0.1, 1.0):
            found = [point(one, "corrected", source, length_s)["bias_pct"] for one in (H100_6428, H100)]
            said.append(f"by {found[0]:.1f} and {found[1]:.1f}%")
    assert (
        f"our way by `samples` is off {said[0]} at 0.1 s, and {said[1]} at 1 s,"
        f" by `usage` {said[2]}, and {said[3]}"
    ) in TEXT


def test_the_text_says_what_the_sensors_are_like_and_how_well_they_predict():
    (instant,) = (one for one in H200["sensors"] if one["source"] == "instant")
    said = f"looks for {1e3 * instant['averaging_s']:.0f} ms of every {1e3 * instant['refresh_s']:.0f}"
    assert said in TEXT
    errors = [
        abs(one["bias_pct"] - one["predicted_pct"])
        for one in H200["points"]
        if one["source"] == "usage"
        and one["method"] in ("sma", "papi", "mtsm")
        and None not in (one["bias_pct"], one["predicted_pct"])
    ]
    near = sum(error <= 3 for error in errors)
    assert f"of {len(errors)} cases of SMA, PAPI-style and MTSM by `usage` {near} lie within 3 points" in TEXT
