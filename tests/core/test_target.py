import pytest

from ptxbench.core.errors import InputError
from ptxbench.core.target import TARGETS, find_target, target_for_capability


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_target_is_found_by_name_and_by_its_own_capability(target):
    assert find_target(target.name) == target
    assert target_for_capability(target.capability // 10, target.capability % 10) == target


def test_a_newer_gpu_of_a_generation_takes_the_generations_newest_plain_target():
    assert target_for_capability(8, 7).name == "sm_86"


@pytest.mark.parametrize("capability", [(6, 1), (11, 0), (12, 1)])
def test_a_gpu_without_a_target_is_refused(capability):
    # Architecture-specific targets run on their own capability only.
    with pytest.raises(InputError, match=f"compute capability {capability[0]}.{capability[1]} has no target"):
        target_for_capability(*capability)


def test_an_unknown_target_lists_the_known_ones():
    with pytest.raises(InputError, match="unknown target 'sm_1'; known targets: sm_75, "):
        find_target("sm_1")
