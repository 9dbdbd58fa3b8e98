#!/usr/bin/env python3
"""Asks DuckDB, DataFusion and Spark the ten questions of questions.sql, and compares the answers.

engines.py ask ENGINE DATASET OUT.json   answers and times of one engine
engines.py flows MASTER MANIFEST OUT     Spark makes flow tables of captures by mapInArrow: one program per series
engines.py compare A.json B.json ...     fails unless all answers are equal
"""

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLES = ["captures", "events", "flows", "intervals", "samples"]
# Whole seconds of the intervals: how a time becomes a number is each engine's own.
SECONDS = "SELECT {epoch} AS epoch_s, payload_bytes, retransmitted_bytes FROM intervals"


def questions():
    """Name, question and SQL."""
    found = []
    for block in (HERE / "questions.sql").read_text().split("\n-- ")[2:]:
        head, sql = block.split("\n", 1)
        name, question = head.split(": ", 1)
        found.append((name, question, sql.strip().rstrip(";")))
    return found


def duckdb(dataset):
    import duckdb as engine

    con = engine.connect(config={"threads": int(os.environ.get("THREADS", "2"))})
    con.execute("SET TimeZone = 'UTC'")
    for table in TABLES:
        files = f"{dataset}/v1/table={table}/**/*.parquet"
        con.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true, "
                    "union_by_name = true, hive_types_autocast = false)")
    con.execute("CREATE VIEW seconds AS " + SECONDS.format(epoch="epoch(start)"))
    return engine.__version__, lambda sql: con.execute(sql).fetchall()


def datafusion(dataset):
    import datafusion as engine
    import pyarrow as pa

    con = engine.SessionContext(engine.SessionConfig().with_target_partitions(int(os.environ.get("THREADS", "2"))))
    for table in TABLES:
        con.register_parquet(table, f"{dataset}/v1/table={table}/",
                             table_partition_cols=[("env", pa.string()), ("date", pa.string())])
    con.sql("CREATE VIEW seconds AS " + SECONDS.format(epoch="CAST(start AS BIGINT) / 1e6"))

    def ask(sql):
        table = con.sql(sql).to_arrow_table()
        return list(zip(*[column.to_pylist() for column in table.columns])) if table.num_columns else []

    return engine.__version__, ask


def snappy(home):
    """Names the library of snappy for glibc: snappy-java may take another C library's files for ours."""
    if platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        return "-Djava.net.preferIPv4Stack=true"
    folder = Path(sys.prefix) / "snappy"
    if not (folder / "libsnappyjava.so").exists():
        folder.mkdir(exist_ok=True)
        with zipfile.ZipFile(next(home.glob("jars/snappy-java-*.jar"))) as jar:
            new = folder / f"new-{os.getpid()}"
            new.write_bytes(jar.read("org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"))
            new.rename(folder / "libsnappyjava.so")
    return f"-Dorg.xerial.snappy.lib.path={folder} -Dorg.xerial.snappy.lib.name=libsnappyjava.so"


def spark_session(master):
    import pyspark
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("cellerator")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.driver.memory": "2g",
        "spark.executor.memory": "1g",
    }
    for side in ("driver", "executor"):
        settings[f"spark.{side}.extraJavaOptions"] = snappy(Path(os.environ["SPARK_HOME"]))
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return pyspark.__version__, session


def spark(dataset):
    version, session = spark_session(os.environ.get("MASTER", "local[2]"))
    for table in TABLES:
        session.read.parquet(f"{dataset}/v1/table={table}").createOrReplaceTempView(table)
    session.sql("CREATE TEMP VIEW seconds AS " + SECONDS.format(epoch="unix_micros(start) / 1e6"))
    return version, lambda sql: [tuple(row) for row in session.sql(sql).collect()]


def plain(value):
    """A value as JSON has it; numbers as numbers, whatever an engine calls them."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    number = float(value)
    return None if math.isnan(number) else number


def ask(engine, dataset, out):
    began = time.monotonic()
    version, run = {"duckdb": duckdb, "datafusion": datafusion, "spark": spark}[engine](dataset)
    opened = time.monotonic() - began
    answers = []
    for name, question, sql in questions():
        began = time.monotonic()
        rows = [[plain(value) for value in row] for row in run(sql)]
        answers.append({"name": name, "question": question, "rows": rows, "seconds": time.monotonic() - began})
        print(f"  {engine} {name}: {len(rows)} rows, {answers[-1]['seconds']:.2f} s", file=sys.stderr)
    Path(out).write_text(json.dumps({"engine": engine, "version": version, "open_seconds": opened,
                                     "answers": answers}, indent=1))


def is_equal(a, b):
    """Equal; of floats, sums may have been made in another order."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return a == b


def compare(files):
    """Fails with the first difference."""
    first, *others = [json.loads(Path(file).read_text()) for file in files]
    if len(first["answers"]) != 10:
        sys.exit(f"{len(first['answers'])} questions instead of ten")
    for other in others:
        for a, b in zip(first["answers"], other["answers"], strict=True):
            who = f"{a['name']}: {first['engine']} and {other['engine']}"
            if not a["rows"]:
                sys.exit(f"{a['name']}: no rows")
            if len(a["rows"]) != len(b["rows"]):
                sys.exit(f"{who} differ: {len(a['rows'])} rows, {len(b['rows'])} rows")
            for row, (x, y) in enumerate(zip(a["rows"], b["rows"])):
                if len(x) != len(y) or not all(map(is_equal, x, y)):
                    sys.exit(f"{who} differ in row {row}: {x} and {y}")
    names = ", ".join(document["engine"] for document in [first, *others])
    print(f"{names}: the same answers to {len(first['answers'])} questions")


def flow_tables(program):
    """A function for mapInArrow: series in, flows out. The program runs once per series."""

    def run(batches):
        import pyarrow as pa
        import pyarrow.parquet as pq

        for batch in batches:
            for series in batch.column("series").to_pylist():
                with tempfile.TemporaryDirectory() as folder:
                    manifest = Path(folder) / "manifest.json"
                    manifest.write_text(json.dumps({"schema": "cellerator/manifest/1",
                                                    "series": [json.loads(series)]}))
                    command = [program, "analyze", "--threads", "1", "--parquet", f"{folder}/dataset",
                               "--manifest", str(manifest)]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    if done.returncode:
                        raise RuntimeError(done.stderr)
                    for part in sorted(Path(folder, "dataset/v1/table=flows").glob("**/*.parquet")):
                        table = pq.ParquetFile(part).read()
                        yield from table.replace_schema_metadata(None).to_batches()

    return run


def flows(master, manifest, out):
    """The flow table of all series of a manifest, as Parquet, in the folder `out`."""
    import pyarrow.parquet as pq

    manifest = Path(manifest).resolve()
    series = json.loads(manifest.read_text())["series"]
    for one in series:
        one["files"] = [str(manifest.parent / file) for file in one["files"]]
    program = os.environ["CELLERATOR"]
    # The schema is that of any series: one, here.
    with tempfile.TemporaryDirectory() as folder:
        sample = next(flow_tables_of_one(program, series[0], folder))
        schema_table = pq.ParquetFile(sample).schema_arrow.remove_metadata()
    version, session = spark_session(master)
    from pyspark.sql.pandas.types import from_arrow_schema

    began = time.monotonic()
    rows = [(json.dumps(one),) for one in series]
    # Small tasks: series are of different sizes.
    frame = session.createDataFrame(rows, "series string").repartition(max(2, min(len(rows), 64)))
    table = frame.mapInArrow(flow_tables(program), from_arrow_schema(schema_table))
    table.write.mode("overwrite").parquet(out)
    seconds = time.monotonic() - began
    count = session.read.parquet(out).count()
    session.stop()
    print(json.dumps({"master": master, "version": version, "seconds": seconds, "flows": count}))


def flow_tables_of_one(program, series, folder):
    manifest = Path(folder) / "manifest.json"
    manifest.write_text(json.dumps({"schema": "cellerator/manifest/1", "series": [series]}))
    subprocess.run([program, "analyze", "--parquet", f"{folder}/dataset", "--manifest", str(manifest)],
                   check=True, capture_output=True)
    return Path(folder, "dataset/v1/table=flows").glob("**/*.parquet")


def same_flows(dataset, made):
    """Fails unless the flows that Spark made of captures are those of the dataset."""
    import duckdb as engine

    con = engine.connect()
    one = f"SELECT * FROM read_parquet('{dataset}/v1/table=flows/**/*.parquet', hive_partitioning = false)"
    other = f"SELECT * FROM read_parquet('{made}/*.parquet')"
    counts = [con.execute(f"SELECT count(*) FROM ({sql})").fetchone()[0] for sql in (one, other)]
    rest = [con.execute(f"SELECT count(*) FROM ({a} EXCEPT ALL {b})").fetchone()[0]
            for a, b in ((one, other), (other, one))]
    if counts[0] == 0 or counts[0] != counts[1] or any(rest):
        sys.exit(f"{made}: {counts[1]} flows instead of {counts[0]}, {rest[0]} missing, {rest[1]} other")
    print(f"{made}: the dataset's {counts[0]} flows")


def main():
    match sys.argv[1:]:
        case ["ask", engine, dataset, out]:
            ask(engine, dataset, out)
        case ["flows", master, manifest, out]:
            flows(master, manifest, out)
        case ["same-flows", dataset, made]:
            same_flows(dataset, made)
        case ["compare", *files] if len(files) > 1:
            compare(files)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
