"""The recipe for Spark in docs/scaling.md, where Spark and Java are installed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pyarrow
import pytest
from cli.small_run import train
from pyarrow import parquet
from streams.big_table import columns, described, rows_of, write

from glws.experiment import Labeler

sql = pytest.importorskip("pyspark.sql")
SCHEMA = (
    "row long, patient long, kind string, `group` string, prediction string, label string, joint_label string, "
    "entropy double, log_likelihood double, approximation_error double, `p(benign)` double, `p(malignant)` double"
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark runs on Java")
def test_groups_that_spark_keeps_together_are_answered_as_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = write(tmp_path / "t.parquet", columns("shuffled"))
    labeler = Labeler.load(train(tmp_path / "run", "--data", str(described(tmp_path, about)), "data.held_out=0"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "512m").getOrCreate()
    try:
        rows, part = spark.read.parquet(str(tmp_path / "t.parquet")), sql.functions.expr("abs(hash(bag)) % 5")
        found = (
            rows.withColumn("part", part).groupBy("part").applyInPandas(lambda part: labeler(part), SCHEMA).toPandas()
        )
    finally:
        spark.stop()
    expected = labeler(parquet.read_table(tmp_path / "t.parquet"))
    tables = [table.drop_columns("row") for table in (pyarrow.Table.from_pandas(found, preserve_index=False), expected)]
    first, second = (rows_of(table.append_column("row", table["patient"])) for table in tables)
    assert first == second
