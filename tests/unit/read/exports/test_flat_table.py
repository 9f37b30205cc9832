"""Runs as a flat table: a row a run, every input, one type a column, two formats."""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pandas
import pyarrow.parquet
import pytest

from labs import catalog
from labs.cli.__main__ import main
from labs.cli.new import source
from labs.read.exports.flat_table import described
from labs.read.runs.compare import every_run
from labs.read.runs.run import Run, open_run
from labs.studies.run_access import flat_table
from tests.real_runs import STUDIES, real, real_study, sweeps_study
from tests.run_folders import inputs, make_run

STUDY = STUDIES / "6.1.tar.xz"
TABLE_SCHEMA = Path(__file__).parents[3] / "fixtures" / "exports" / "table-schema.json"


def table() -> pandas.DataFrame:
    return flat_table(real_study("6.1").runs)


def test_flat_table_has_all_inputs_and_results_of_each_run() -> None:
    rows = table()
    assert len(rows) == 23
    assert list(rows["run"]) == [run.name for run in real_study("6.1").runs]
    row = rows[rows["condition"] == "sweep-set-98k"].iloc[0]
    assert row["inputs.condition.link.rate_mbit"] == 10
    assert row["inputs.condition.settings.client_rcvbuf_bytes"] == 49 << 10
    assert row["inputs.condition.sysctls.server.net.core.wmem_max"] == "212992"
    assert row["inputs.kernel.version"].startswith("6.1.")
    assert row["buffer_bytes"] == 98 << 10
    names = list(map(str, rows))
    inputs = [name for name in names if name.startswith("inputs.")]
    assert names[-len(inputs) :] == sorted(inputs)


def test_flat_table_columns_have_one_type_and_empty_means_missing() -> None:
    rows = table()
    kinds = {str(dtype) for dtype in rows.dtypes}
    assert kinds == {"string", "Int64", "Float64", "boolean"}
    assert rows.dtypes["bytes"] == "Int64" and rows.dtypes["goodput_mib_s"] == "Float64"
    assert rows.dtypes["settled"] == "boolean" and rows.dtypes["notes"] == "string"
    requests = rows[rows["condition"] == "setsockopt"].iloc[0]
    assert requests["bytes"] is pandas.NA and requests["settled"] is pandas.NA
    assert rows.dtypes["article_mib_s"] == "Float64" and rows["article_mib_s"].isna().all()


def test_flat_table_column_of_several_types_is_text() -> None:
    """The rate of an unshaped link is nothing, the client of a run a word."""
    rows = flat_table([real("unshaped"), real("wget")])
    assert list(rows["inputs.condition.settings.client"]) == ["discard", "wget"]
    assert rows["inputs.condition.link.rate_mbit"].isna().tolist() == [True, False]


def own_lab(folder: Path, monkeypatch: pytest.MonkeyPatch, **values: object) -> Run:
    """A run of a lab of the reader's own with these results."""
    monkeypatch.setattr(catalog, "_of_files", {})
    text = source("mine")
    columns = (
        f"    @column({name!r})\n    def {name}(self): return {value!r}\n"
        for name, value in values.items()
    )
    path = folder / "mine.py"
    path.write_text(text[: text.index("    @column")] + "".join(columns))
    catalog.find(str(path))
    return open_run(make_run(folder / "runs", inputs("far", lab="mine")))


def test_flat_table_keeps_columns_of_a_lab_beside_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = own_lab(tmp_path, monkeypatch, ended="early", bytes=5)
    (row,) = flat_table([run]).to_dict("records")
    assert [row[name] for name in ("ended", "bytes", "key")] == ["early", 5, run.key]
    assert row["run.ended"] == run.ended
    assert row["lab"] == "mine" and "run.lab" not in row and "run.bytes" not in row
    mixed = flat_table([run, real("unshaped")])
    assert mixed["run.ended"].tolist() == [run.ended, real("unshaped").ended]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_write_table_reads_back(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"study.{ending}"
    assert main(["runs", "export", str(STUDY), f"--{ending}", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    read = pandas.read_csv(out) if ending == "csv" else pandas.read_parquet(out)
    made = flat_table(every_run(STUDY))
    assert (report["rows"], report["columns"]) == read.shape == made.shape
    assert list(read["condition"]) == list(made["condition"])
    assert read["goodput_mib_s"].dropna().tolist() == pytest.approx(
        made["goodput_mib_s"].dropna().tolist()
    )
    if ending == "parquet":
        pandas.testing.assert_frame_equal(read, made)


def test_write_table_gives_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        assert main(["runs", "export", str(STUDY), "--csv", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_flat_table_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "one.csv"
    assert main(["runs", "export", str(real("captured").path), "--csv", str(out)]) == 0
    assert ": 1 run, " in capsys.readouterr().out


def test_check_ending_refuses_another_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "export", "nowhere", "--csv", str(tmp_path / "x.xlsx")]) == 2
    assert ".csv" in capsys.readouterr().err


def test_check_ending_refuses_parquet_without_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["runs", "export", str(STUDY), "--parquet", str(tmp_path / "x.parquet")]) == 3
    message = capsys.readouterr().err
    assert "pyarrow" in message and message.count("\n") == 1


def test_flat_table_of_a_folder_without_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "export", str(tmp_path), "--csv", str(tmp_path / "x.csv")]) == 2
    assert "contains no run" in capsys.readouterr().err


def test_write_table_as_parquet_has_units_and_meanings(tmp_path: Path) -> None:
    out = tmp_path / "study.parquet"
    assert main(["runs", "export", str(STUDY), "--parquet", str(out)]) == 0
    schema = pyarrow.parquet.read_schema(out)
    column = catalog.find("buffers").columns["goodput_mib_s"]
    metadata = schema.field("goodput_mib_s").metadata
    assert metadata == {b"unit": b"MiB/s", b"meaning": column.meaning.encode()}
    assert schema.field("inputs.condition.link.rate_mbit").metadata[b"unit"] == b"Mbit/s"
    assert all(b"meaning" in (field.metadata or {}) for field in schema)


def test_write_table_as_csv_has_a_table_schema_beside_it(tmp_path: Path) -> None:
    """Held to the schema of the format itself; the values are read by its types."""
    out = tmp_path / "study.csv"
    assert main(["runs", "export", str(STUDY), "--csv", str(out)]) == 0
    schema = json.loads((tmp_path / "study.schema.json").read_text())
    jsonschema.validate(schema, json.loads(TABLE_SCHEMA.read_text()))
    assert out.read_bytes().startswith(codecs.BOM_UTF8)
    with out.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert [field["name"] for field in schema["fields"]] == list(rows[0])
    read: dict[str, Callable[[str], Any]] = {
        "string": str,
        "integer": int,
        "number": float,
        "boolean": ("True", "False").index,
    }
    for field in schema["fields"]:
        for row in rows:
            if row[field["name"]] not in schema["missingValues"]:
                read[field["type"]](row[field["name"]])
    units = {field["name"]: field.get("unit") for field in schema["fields"]}
    assert units["goodput_mib_s"] == "MiB/s" and units["notes"] is None


def test_described_of_labs_that_differ_gives_each_meaning() -> None:
    rows = flat_table([real("unshaped"), sweeps_study().run("both-16k")])
    both = described(rows, catalog.loaded)["goodput_mib_s"]
    meanings = [catalog.find(name).columns["goodput_mib_s"] for name in ("buffers", "sweeps")]
    assert both.meaning == "; ".join(dict.fromkeys(column.meaning for column in meanings))
    assert both.unit == "MiB/s"
