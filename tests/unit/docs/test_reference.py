"""docs/reference.md says what the code has."""

from __future__ import annotations

from docs.reference import PAGE, page, programs, schedulers
from labs.drive.kernel.options import congestion_controls
from labs.guest.testbed.path import QUEUES


def test_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "python3 docs/reference.py"


def test_virtual_kernels_have_every_queue_of_a_path() -> None:
    assert set(QUEUES) <= set(schedulers())


def test_controls_are_those_of_the_kernel_s_configuration() -> None:
    assert {"reno", "cubic", "bbr", "dctcp"} <= set(congestion_controls())
    assert "advanced" not in congestion_controls()


def test_programs_have_a_sentence_each() -> None:
    sentences = dict(programs())
    assert sentences.keys() >= {"`stream.py`", "`request.py`", "`queue_sampler.py`", "`sampler.py`"}
    assert all(words.endswith(".") for words in sentences.values())
