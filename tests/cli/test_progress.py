"""Progress where nobody watches: a line every 30 s, with what is left."""

import sys
from queue import Queue

from ptxbench.cli.progress import ProgressLine, progress_bar, progress_lines


def test_a_line_without_a_total_does_not_count_to_zero():
    line = ProgressLine(iter((0.0, 30.0)).__next__)
    assert line.text() == "working, 30 s so far"


def test_a_line_says_what_is_left():
    times_s = iter([100.0, 130.0, 400.0, 401.0])
    line = ProgressLine(lambda: next(times_s))
    line.note(1, 4, "fma.rn.f32")
    assert line.text() == "1 of 4 done in 30 s, about 90 s left (fma.rn.f32)"
    line.note(2, 4, "add.f32")
    assert line.text() == "2 of 4 done in 5 min, about 5 min left (add.f32)"
    line.note(4, 4, "")
    assert line.text() == "4 of 4 done in 5 min"


def test_what_is_left_is_not_said_by_the_first_few_of_many():
    times_s = iter([0.0, 60.0, 90.0])
    line = ProgressLine(lambda: next(times_s))
    line.note(3, 84, "round 2")
    assert line.text() == "3 of 84 done in 60 s (round 2)"
    line.note(40, 84, "round 1")
    assert line.text() == "40 of 84 done in 90 s, about 99 s left (round 1)"


def test_a_line_comes_every_30_s_also_where_a_step_takes_longer(capsys):
    steps, waited, time_s = Queue(), Queue(), [0.0]

    def wait(ended, most_s):
        waited.put(most_s)
        time_s[0] += most_s
        return steps.get() == "end"

    with progress_lines(lambda: time_s[0], wait) as show:
        assert waited.get() == 30
        show(1, 10, "fma.rn.f32")
        for _ in range(2):
            steps.put("go on")
            assert waited.get() == 30
        steps.put("end")
    assert capsys.readouterr().err.splitlines() == [
        "ptxbench: 1 of 10 done in 30 s, about 4 min left (fma.rn.f32)",
        "ptxbench: 1 of 10 done in 60 s, about 9 min left (fma.rn.f32)",
    ]


def test_short_work_prints_nothing(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with progress_bar() as show:
        show(1, 2, "x")
    assert capsys.readouterr() == ("", "")
