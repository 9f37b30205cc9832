"""Plans from the file to the parameters of each point."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook
from papermill.iorw import read_yaml_file

import labs
from labs.batches.plan_file import read_plan
from labs.cli.new import source as source_of_a_lab
from labs.drive.parameters.declare import declared
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers
from tests.plans import plan, refused_at, write_plan

FULL = """\
lab: buffers
RATE_MBIT: 100
DELAY_MS: [10, 50, 200]
BUFFER_MIB: {from: 0.1, to: 50, steps: 12, scale: log}
KERNEL: ["6.1", "7.2"]
exclude: [{KERNEL: "7.2", DELAY_MS: {from: 100}}]
repetitions: 3
"""


def test_read_plan_of_every_kind_of_axis(tmp_path: Path) -> None:
    plan_file = read_plan(write_plan(tmp_path, FULL))
    assert plan_file.count == len(list(plan_file.points)) == (3 * 2 - 1) * 12 * 3
    assert plan_file.varied == ("DELAY_MS", "BUFFER_MIB", "KERNEL", "SEED")
    first, *_, last = map(plan_file.parameters_of, plan_file.points)
    assert first == Buffers(rate_mbit=100, delay_ms=10, buffer_mib=0.1, kernel="6.1", seed=1)
    assert last == Buffers(rate_mbit=100, delay_ms=200, buffer_mib=50, kernel="6.1", seed=3)


def test_read_plan_reads_the_same_from_json(tmp_path: Path) -> None:
    path = write_plan(tmp_path, json.dumps(yaml.safe_load(FULL), indent="\t"), name="plan.json")
    points = list(read_plan(path).points)
    assert points == list(read_plan(write_plan(tmp_path, FULL)).points)


@pytest.mark.parametrize(
    ("text", "subject", "line"),
    [
        ("RATE_MBIT: 3", None, 1),
        ("RATE_MBIT: 3\nlab: bufers", None, 2),
        ("RATE_MBIT: 3\nlab: ./gone.py", None, 2),
        ("lab: buffers\nnotebook: x.ipynb", None, 2),
        ("RATE_MBIT: 3\nlab: buffers", "nagle", 2),
        ("RATE_MBIT: 3\nREQUESTS: 10", "buffers", 2),
    ],
)
def test_read_plan_refuses_a_subject_with_the_line(
    tmp_path: Path, text: str, subject: str | None, line: int
) -> None:
    assert refused_at(write_plan(tmp_path, text), subject=subject) == line


def test_read_plan_finds_a_lab_and_a_notebook_beside_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "plans"
    folder.mkdir()
    (folder / "mine.py").write_text(source_of_a_lab("mine"))
    plan_file = read_plan(write_plan(folder, "lab: ./mine.py"))
    assert (plan_file.subject.path, plan_file.subject.name, plan_file.count) == (None, "mine", 1)
    cells = [
        new_code_cell("SEED = 3", metadata={"tags": ["parameters"]}),
        new_code_cell('p = labs.check("./mine.py", globals())', metadata={"tags": ["check"]}),
    ]
    nbformat.write(new_notebook(cells=cells), folder / "mine.ipynb")
    plan_file = read_plan(write_plan(folder, "notebook: mine.ipynb\nrepetitions: 2"))
    assert (plan_file.subject.path, plan_file.subject.lab.name) == (folder / "mine.ipynb", "mine")
    assert [plan_file.parameters_of(point).seed for point in plan_file.points] == [3, 4]


def test_parameters_of_a_lab_have_the_defaults_of_the_command_line(tmp_path: Path) -> None:
    plan_file = plan(tmp_path, "TESTBED: [virtual, vagrant]\nTRANSFER_MIB: 64")
    virtual, vagrant = map(plan_file.parameters_of, plan_file.points)
    assert virtual == Buffers(transfer_mib=64)
    assert vagrant == Buffers(testbed="vagrant", rate_mbit=200, transfer_mib=64)


def test_refusal_names_the_point_and_a_line(tmp_path: Path) -> None:
    plan_file = plan(tmp_path, 'SIZE: small\nONLY: [default, "no-such"]')
    _, wrong = plan_file.points
    parameters = plan_file.parameters_of(wrong)
    with pytest.raises(BadInput) as caught:
        plan_file.subject.lab.conditions(parameters)
    told = plan_file.refusal(wrong, caught.value)
    assert type(told) is BadInput
    assert re.match(
        rf'{re.escape(str(plan_file.path))}, line 3: point 2 \(ONLY = "no-such"\): ', str(told)
    )


def test_parameters_of_tells_the_point_that_the_lab_refuses(tmp_path: Path) -> None:
    lab = source_of_a_lab("mine") + (
        "\n\nfrom labs.errors import BadInput\n\n_own_check = Parameters.__post_init__\n\n\n"
        "def _together(p):\n    _own_check(p)\n    if p.seed == 2 and p.memory_mib > 4096:\n"
        '        raise BadInput("seed 2 needs less memory")\n\n\n'
        "Parameters.__post_init__ = _together\n"
    )
    (tmp_path / "mine.py").write_text(lab)
    text = "lab: mine.py\nMEMORY_MIB: [4096, 8192]\nseeds: [1, 2]"
    plan_file = read_plan(write_plan(tmp_path, text))
    *fine, wrong = plan_file.points
    assert len([plan_file.parameters_of(point) for point in fine]) == 3
    with pytest.raises(BadInput, match=r"line 2: point 4 \(MEMORY_MIB = 8192, SEED = 2\): "):
        plan_file.parameters_of(wrong)


def test_plan_of_values_is_what_papermill_reads(tmp_path: Path) -> None:
    text = (
        'RATE_MBIT: 100\nDELAY_MS: 0.5\nKERNEL: "6.10"\nSEED: 010\nCAPTURE: yes\nONLY: 2001-01-01\n'
    )
    path = write_plan(tmp_path, text)
    (point,) = read_plan(path, subject="buffers").points
    assert dict(point.values) == read_yaml_file(str(path))


def test_papermills_file_is_a_plan_and_its_check_agrees(tmp_path: Path) -> None:
    path = write_plan(tmp_path, "RATE_MBIT: 100\nDELAY_MS: 20\nKERNEL: '7.2'\n")
    plan_file = read_plan(path, subject="buffers")
    (point,) = plan_file.points
    assert plan_file.parameters_of(point) == labs.check("buffers", read_yaml_file(str(path)))


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_random_plans_have_as_many_points_as_counted(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(plans())
    exclude = content.pop("exclude", [])
    every = list(read_plan(write_plan(tmp_path, as_yaml(content))).points)
    left = [
        point.values for point in every if not any(_matches(point.values, it) for it in exclude)
    ]
    path = write_plan(tmp_path, as_yaml({**content, "exclude": exclude} if exclude else content))
    if not left:
        assert refused_at(path) == path.read_text().splitlines().index("exclude:") + 1
        return
    plan_file = read_plan(path)
    points = list(plan_file.points)
    assert [point.values for point in points] == left
    assert plan_file.count == len(points) == len({tuple(point.values.items()) for point in points})
    assert [point.number for point in points] == list(range(1, plan_file.count + 1))
    for names in content.get("zip", []):
        for point in points:
            assert len({content[name].index(point.values[name]) for name in names}) == 1
    names = {parameter.notebook_name for parameter in declared(Buffers).values()}
    assert all(set(point.values) <= names for point in points)
    assert [plan_file.parameters_of(point).seed for point in points] == [
        point.values.get("SEED", 1) for point in points
    ]


def as_yaml(content: Mapping[str, Any]) -> str:
    return yaml.dump(dict(content), sort_keys=False, Dumper=_NoAliases)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans of `buffers`: up to four axes, a zip of those with equal lengths, exclusions, seeds."""
    axes = {
        "RATE_MBIT": st.integers(1, 9),
        "DELAY_MS": st.floats(0, 100).map(lambda delay: round(delay, 3)),
        "KERNEL": st.sampled_from(["5.10", "6.1", "6.12", "7.2"]),
        "TRANSFER_MIB": st.integers(1, 9),
    }
    content: dict[str, Any] = {"lab": "buffers"}
    for name in draw(st.permutations(list(axes))):
        values = draw(st.lists(axes[name], max_size=4, unique=True))
        if values:
            content[name] = values
    lengths = [name for name in axes if len(content.get(name, [])) == 2]
    if len(lengths) > 1 and draw(st.booleans()):
        content["zip"] = [lengths]
    matches: dict[str, st.SearchStrategy[Any]] = {
        name: st.one_of(
            st.sampled_from(values), st.lists(st.sampled_from(values), min_size=1, unique=True)
        )
        for name, values in content.items()
        if name in axes
    }
    if "RATE_MBIT" in matches:
        ends = st.fixed_dictionaries(
            {}, optional={"from": st.integers(1, 5), "to": st.integers(5, 9)}
        )
        matches["RATE_MBIT"] |= ends.filter(bool)
    if draw(st.booleans()) and matches:
        some: st.SearchStrategy[set[str]] = st.sets(st.sampled_from(sorted(matches)), min_size=1)
        content["exclude"] = [
            {name: draw(matches[name]) for name in sorted(draw(some))}
            for _ in range(draw(st.integers(1, 3)))
        ]
    if draw(st.booleans()):
        content["repetitions"] = draw(st.integers(1, 4))
    return content


def _matches(values: Mapping[str, Any], match: Mapping[str, Any]) -> bool:
    return all(_among(values[name], allowed) for name, allowed in match.items())


def _among(value: Any, allowed: Any) -> bool:
    if isinstance(allowed, dict):
        return bool(allowed.get("from", value) <= value <= allowed.get("to", value))
    return value in (allowed if isinstance(allowed, list) else [allowed])


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["RATE_MBIT", "DELAY_MS", "6.1", "1e6", "log", 10**30, -1, 2]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["from", "to", "step", "steps", "scale", "SEED"]), inner)
    ),
    max_leaves=8,
)
KEYS = ["lab", "notebook", "zip", "exclude", "repetitions", "seeds", "RATE_MBIT", "KERNEL", "SEED"]


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_value_is_read_or_refused_with_a_line(tmp_path: Path, content: dict[str, Any]) -> None:
    path = write_plan(tmp_path, as_yaml({"lab": "buffers", **content}))
    try:
        assert read_plan(path).count > 0
    except BadInput:
        assert refused_at(path) > 0


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_change_of_a_file_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(FULL.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=2)
            | st.sampled_from([b"[", b"{", b"&a ", b"*a", b"\n", b"\n- ", b": "])
        )
    path = write_plan(tmp_path, bytes(content))
    try:
        assert read_plan(path).count > 0
    except BadInput:
        assert refused_at(path) > 0
