"""Tests find mistakes: every fault of the table makes one of its tests fail."""

import re
from collections import Counter

import pytest

from tests.faults import FAULTS, ROOT, Copy, Fault


@pytest.fixture(scope="module")
def copy(tmp_path_factory, request):
    copy = Copy(tmp_path_factory.mktemp("copy"))
    own = [item for item in request.session.items if item.path == request.path]
    copy.check([item.callspec.params["fault"] for item in own if hasattr(item, "callspec")])
    return copy


def outdated(fault: Fault) -> list[str]:
    """Returns what the table says of a fault and is not so any more."""
    count = (ROOT / fault.file).read_text().count(fault.old)
    wrong = [] if count == 1 else [f"{fault.file} has the text {count} times"]
    for test in fault.tests.split():
        path, name = test.split("::")
        if not re.search(rf"^def {re.escape(name)}\(", (ROOT / path).read_text(), re.MULTILINE):
            wrong.append(f"there is no {test}")
    return wrong


def test_every_fault_can_be_planted_and_has_its_tests():
    assert {f.name: wrong for f in FAULTS if (wrong := outdated(f))} == {}
    assert [name for name, count in Counter(f.name for f in FAULTS).items() if count > 1] == []


@pytest.mark.slow  # each takes some seconds
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_found(fault, copy):
    assert copy.find(fault).test is not None, f"no test finds: {fault.name}"
