"""The energy counter judges the power source of a run, over all of its trials, whatever their length."""


import pytest

pytestmark = pytest.mark.hostile
