"""The index of a batch: its columns, its rows, what survives, and what a stranger's file may do."""

from __future__ import annotations

import json
import random
import shutil
import sys
from dataclasses import make_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from labs.batches import index_writer
from labs.batches.index_writer import IndexWriter, PlannedRow
from labs.catalog import find
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import column
from labs.errors import BadInput, Damaged, LabError, Missing
from labs.read import batch_index as index
from labs.read.batch_index import INDEX, file_of, read_index
from labs.read.batch_index_schema import HEAD, IndexColumn, arrow, columns_of_lab
from labs.read.runs.run import open_run
from tests.index_rows import planned
from tests.mutations import changed_bytes
from tests.run_folders import inputs, make_run

BUFFERS = find("buffers")
POINTS = [{"delay_ms": 10.0}, {"delay_ms": 50.0}]
CONDITIONS = ("default", "both")
HEAD_OF: dict[str, Any] = {"title": "Two delays", "axes": {"delay_ms": (10.0, 50.0)}}


@pytest.fixture
def rows(tmp_path: Path) -> list[PlannedRow]:
    """Four rows, of which the last has no run."""
    planned_rows = planned(BUFFERS, tmp_path / "runs", POINTS, CONDITIONS)
    for row in planned_rows[:-1]:
        make_run(tmp_path / "runs", inputs(row.condition, seed=1 + row.point))
    return planned_rows


def written(path: Path, rows: list[PlannedRow], **more: Any) -> index.Index:
    with IndexWriter(path, BUFFERS, rows, **HEAD_OF, **more) as writer:
        for row in rows:
            writer.look(row.key)
    return read_index(path)


def test_index_has_a_row_per_point_and_condition(tmp_path: Path, rows: list[PlannedRow]) -> None:
    index = written(tmp_path / INDEX, rows)
    frame = index.frame
    assert frame["point"].tolist() == [0, 0, 1, 1]
    assert frame["condition"].tolist() == [*CONDITIONS, *CONDITIONS]
    assert frame["status"].tolist() == ["made"] * 3 + ["missing"]
    assert frame["delay_ms"].tolist() == [10, 10, 50, 50]
    run = open_run(rows[0].folder)
    values = BUFFERS.results(run).values
    assert frame["goodput_mib_s"][0] == values["goodput_mib_s"]
    assert frame["duration_s"][0] == 11.1
    assert frame["run_rate_mbit"][0] == 957.2 and frame["rate_mbit"][0] == 1000
    assert (frame["run_kernel"][0], frame["kernel"][0]) == ("6.1.192", "6.1")
    assert (frame["key"][0], frame["digest"][0]) == (run.key, run.digest)
    assert frame["group"][0] == "a group" and not frame["excluded"][0]
    assert frame["goodput_mib_s"].isna().tolist() == [False] * 3 + [True]


def test_index_says_units_and_meanings_to_any_reader(
    tmp_path: Path, rows: list[PlannedRow]
) -> None:
    index = written(tmp_path / INDEX, rows)
    field = parquet.read_schema(tmp_path / INDEX).field("goodput_mib_s")
    assert field.metadata[b"unit"] == b"MiB/s"
    assert field.metadata[b"meaning"].startswith(b"mean over the whole file")
    goodput = index.columns["goodput_mib_s"]
    assert (goodput.predicted_by, goodput.headline, goodput.hidden) == (
        "predicted_mean_mib_s",
        True,
        False,
    )
    assert index.columns["run_loss_pct"].meaning == "the loss that was requested"
    assert index.columns["loss_pct"].role == "parameter"
    head = index.head
    assert (head.lab, head.title, head.axes) == ("buffers", "Two delays", HEAD_OF["axes"])
    assert len(head.digest) == len(head.reading) == 64


@pytest.mark.parametrize("name", ["buffers", "nagle", "stack", "sweeps", "windows"])
def test_columns_have_their_types_before_the_first_result(tmp_path: Path, name: str) -> None:
    lab = find(name)
    rows = planned(lab, tmp_path, [{}], ["default"])
    with IndexWriter(tmp_path / INDEX, lab, rows, title="", axes={}) as writer:
        assert writer.counts == {"missing": 1}
    index = read_index(tmp_path / INDEX)
    assert list(index.columns) == [column.name for column in columns_of_lab(lab)]
    for result, declared in lab.columns.items():
        in_index = index.columns.get(f"run_{result}") or index.columns[result]
        assert (in_index.unit, in_index.meaning) == (declared.unit, declared.meaning)
    assert index.rows.schema.field("key").type == pyarrow.string()
    kinds = {column.kind for column in index.columns.values()}
    assert kinds == {str, int, float, bool}


def test_damaged_run_does_not_hide_the_others(tmp_path: Path, rows: list[PlannedRow]) -> None:
    (rows[0].folder / "client" / "fetch.json").write_text("{")
    shutil.rmtree(rows[2].folder)
    rows[2].folder.mkdir()
    (rows[2].folder / "run.json").write_text("{}")
    frame = written(tmp_path / INDEX, rows).frame
    assert frame["status"].tolist() == ["damaged", "made", "damaged", "missing"]
    assert "fetch.json" in frame["message"][0] and "\n" not in frame["message"][0]
    assert frame["goodput_mib_s"].notna().tolist() == [False, True, False, False]


def test_run_of_another_key_is_damaged(tmp_path: Path, rows: list[PlannedRow]) -> None:
    shutil.rmtree(rows[0].folder)
    shutil.copytree(rows[1].folder, rows[0].folder)
    assert written(tmp_path / INDEX, rows).frame["status"][0] == "damaged"


def test_failed_keeps_the_message_in_one_line(tmp_path: Path, rows: list[PlannedRow]) -> None:
    with IndexWriter(tmp_path / INDEX, BUFFERS, rows, **HEAD_OF) as writer:
        writer.failed(rows[3].key, "the guest\nended \x1b[2J")
        assert writer.counts == {"missing": 3, "failed": 1}
    frame = read_index(tmp_path / INDEX).frame
    assert frame["status"][3] == "failed" and frame["message"][3] == "the guest\\nended \\x1b[2J"


def test_rows_of_one_run_are_filled_together(tmp_path: Path, rows: list[PlannedRow]) -> None:
    same = [replace(rows[0], point=at) for at in range(3)]
    frame = written(tmp_path / INDEX, same).frame
    assert frame["digest"].nunique() == 1 and frame["status"].tolist() == ["made"] * 3


def test_writer_replaces_an_index_that_cannot_be_read(
    tmp_path: Path, rows: list[PlannedRow]
) -> None:
    (tmp_path / INDEX).write_bytes(b"PAR1 nothing")
    assert written(tmp_path / INDEX, rows).frame["status"].tolist().count("made") == 3
    assert [path.name for path in tmp_path.glob(".new*")] == []


def test_save_waits_until_writing_is_a_small_share(
    tmp_path: Path, rows: list[PlannedRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    writer = IndexWriter(tmp_path / INDEX, BUFFERS, rows, **HEAD_OF, clock=lambda: now_s[0])
    write = writer._write

    def slow() -> None:
        write()
        now_s[0] += 2.0

    monkeypatch.setattr(writer, "_write", slow)
    assert writer.save() and not writer.save()
    saved = []
    for _ in range(100):
        now_s[0] += 1.0
        writer.look(rows[0].key)
        saved.append(writer.save())
    assert saved.count(True) == 2  # two seconds each of some forty
    writer.look(rows[0].key)
    assert writer.save(now=True)
    assert not writer.save(now=True)


def test_column_without_a_type_is_refused() -> None:
    class Results:
        @column("words")
        def words(self):  # type: ignore[no-untyped-def]
            return 3

    results = ModuleType("results")
    vars(results)["Results"] = Results
    with pytest.raises(BadInput, match="the column words has no type"):
        columns_of_lab(replace(BUFFERS, part=lambda name: results))


def test_result_of_another_type_is_damaged() -> None:
    column = IndexColumn("took_ms", float)
    assert index_writer.typed(column, 3) == 3.0
    for value in ("fast", True):
        with pytest.raises(Damaged, match="took_ms"):
            index_writer.typed(column, value)
    with pytest.raises(Damaged):
        index_writer.typed(IndexColumn("n", int), 1 << 63)


def test_lab_with_a_parameter_of_the_index_is_refused() -> None:
    point = ("point", "int", parameter(1, help="which"))
    made = make_dataclass("P", [point], bases=(LabParameters,), frozen=True, kw_only=True)
    with pytest.raises(BadInput, match="point"):
        columns_of_lab(replace(BUFFERS, Parameters=made))


@pytest.mark.parametrize("axis", ["rate", "runs"])
def test_axis_that_is_not_a_parameter_is_refused(
    tmp_path: Path, rows: list[PlannedRow], axis: str
) -> None:
    with pytest.raises(BadInput, match=axis):
        IndexWriter(tmp_path / INDEX, BUFFERS, rows, title="", axes={axis: (1,)})


def test_rows_without_a_key_are_missing(tmp_path: Path, rows: list[PlannedRow]) -> None:
    unplanned = [replace(row, key="", folder=tmp_path) for row in rows]
    with IndexWriter(tmp_path / INDEX, BUFFERS, unplanned, **HEAD_OF) as writer:
        writer.look("")
        writer.failed("", "of whatever")
        assert writer.counts == {"missing": 4}


def test_without_pyarrow_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Missing, match=r"pip install .*\[capture\]"):
        arrow("index.parquet")


def test_file_of_a_folder_and_of_nothing(tmp_path: Path, rows: list[PlannedRow]) -> None:
    for what in (tmp_path, tmp_path / "gone"):
        with pytest.raises(BadInput):
            file_of(what)
    written(tmp_path / INDEX, rows)
    assert file_of(tmp_path) == file_of(tmp_path / INDEX) == tmp_path / INDEX


def rewritten(path: Path, change: Any) -> None:
    """Write the index again with another table."""
    parquet.write_table(change(parquet.read_table(path)), path)


def with_head(table: pyarrow.Table, **changed: Any) -> pyarrow.Table:
    head = {**json.loads(table.schema.metadata[HEAD]), **changed}
    return table.replace_schema_metadata({HEAD: json.dumps(head)})


def with_numbers(table: pyarrow.Table, name: str, kind: Any = None) -> pyarrow.Table:
    """The table with 1 in every row of a column, whose description is kept."""
    at = table.column_names.index(name)
    values = pyarrow.array([1] * len(table)).cast(kind or pyarrow.int64())
    return table.set_column(at, table.field(name).with_type(values.type), values)


DAMAGES: dict[str, Any] = {
    "no head": lambda table: table.replace_schema_metadata({}),
    "no axes": lambda table: with_head(table, axes=[1]),
    "unknown axis": lambda table: with_head(table, axes={"rate": [1]}),
    "title of another type": lambda table: with_head(table, title=3),
    "no key": lambda table: table.drop_columns("key"),
    "point as text": lambda table: table.set_column(
        0, "point", table["point"].cast(pyarrow.string())
    ),
    "testbed of the run as a number": lambda table: with_numbers(table, "run_testbed"),
    "notes as numbers": lambda table: with_numbers(table, "notes"),
    "kernel as a number": lambda table: with_numbers(table, "kernel"),
    "repetition as a truth value": lambda table: with_numbers(table, "repetition", pyarrow.bool_()),
    "a list": lambda table: table.append_column("list", pyarrow.array([[1]] * len(table))),
    "a column that says nothing": lambda table: table.append_column(
        "more", pyarrow.array([1] * len(table))
    ),
    "a column twice": lambda table: table.append_column(table.field("key"), table["key"]),
    "unknown status": lambda table: table.set_column(
        2, table.field("status"), pyarrow.array(["gone"] * len(table))
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_read_index_refuses_another_table(
    tmp_path: Path, rows: list[PlannedRow], what: str
) -> None:
    assert list(written(tmp_path / INDEX, rows).columns)[2] == "status"
    rewritten(tmp_path / INDEX, DAMAGES[what])
    with pytest.raises(Damaged) as caught:
        read_index(tmp_path / INDEX)
    assert INDEX in str(caught.value) and "\n" not in str(caught.value)


def test_read_index_of_another_schema_version(tmp_path: Path, rows: list[PlannedRow]) -> None:
    written(tmp_path / INDEX, rows)
    rewritten(tmp_path / INDEX, lambda table: with_head(table, schema=2))
    with pytest.raises(BadInput, match="schema 2"):
        read_index(tmp_path / INDEX)


def test_read_index_of_what_is_too_large(
    tmp_path: Path, rows: list[PlannedRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / INDEX, rows)
    for limit in ("MOST_INDEX_BYTES", "MOST_CELLS", "MOST_VALUES_BYTES"):
        with monkeypatch.context() as patched, pytest.raises(Damaged):
            patched.setattr(index, limit, 100)
            read_index(tmp_path / INDEX)
    assert read_index(tmp_path / INDEX).rows.num_rows == 4


def test_read_index_of_texts_that_are_long_once_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary lets a small file stand for gigabytes of text."""
    rows = planned(BUFFERS, tmp_path, [{}], [f"c{number}" for number in range(2000)])
    with IndexWriter(tmp_path / INDEX, BUFFERS, rows, title="", axes={}) as writer:
        for row in rows:
            writer.failed(row.key, "x" * 10_000)
    assert (tmp_path / INDEX).stat().st_size < 200_000
    assert read_index(tmp_path / INDEX).rows["message"].nbytes > 20_000_000
    monkeypatch.setattr(index, "MOST_VALUES_BYTES", 10_000_000)
    with pytest.raises(Damaged, match="too long"):
        read_index(tmp_path / INDEX)


def test_read_index_of_mutated_bytes(tmp_path: Path, rows: list[PlannedRow]) -> None:
    written(tmp_path / INDEX, rows)
    content = (tmp_path / INDEX).read_bytes()
    refused = 0
    for seed in range(300):
        (tmp_path / "other.parquet").write_bytes(changed_bytes(content, random.Random(seed)))
        try:
            assert read_index(tmp_path / "other.parquet").frame.shape[1] >= 6
        except LabError as error:
            refused += 1
            assert "\n" not in str(error)
    assert 100 < refused < 300
