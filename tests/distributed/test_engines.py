"""Other engines than a Dask cluster run the examples of docs/distributed.md, if installed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"
pytestmark = pytest.mark.slow

DATA = """
import numpy as np, fastmcmd as fm
rng = np.random.default_rng(0)
x = rng.normal(size=2000)
y, mean = np.sin(x) + 0.5 * rng.normal(size=2000), np.sin(x) + 0.2
"""


def run(code: str, folder: Path, **environment: str) -> None:
    """Run a program in its own process, because engines leave processes and settings behind."""
    program = folder / "program.py"
    program.write_text(code)
    process = subprocess.run(
        [sys.executable, "-W", "ignore", program], capture_output=True, text=True, check=False,
        timeout=300, env={**os.environ, "PYTHONPATH": str(PAGE.parents[1]), **environment},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]


def test_ray_runs_the_blocks_of_dask(tmp_path):
    """Each engine gives the numbers of this process, bit for bit."""
    pytest.importorskip("ray.util.dask", reason="Ray is not installed: pip install ray")
    page = PAGE.read_text().split("Ray, through")[1].split("```py\n")[1].split("```")[0]
    assert "ray.init()" in page
    page = page.replace("ray.init()", "ray.init(num_cpus=2, include_dashboard=False)")
    page = page.replace("print(", "there = (")
    run(
        f"""{DATA}
import dask.array as da
x, y, mean = (da.from_array(one, chunks=100) for one in (x, y, mean))
{page}
here = fm.evaluate(y, fm.Gaussian(mean, 1.0), x)
assert there.to_dict()["metrics"] == here.to_dict()["metrics"]
""",
        tmp_path,
    )


def test_spark_merges_the_sums_of_its_partitions(tmp_path):
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    page = PAGE.read_text().split("Spark, with")[1].split("```python")[1].split("```")[0]
    calls = [line.removeprefix("# ") for line in page.splitlines() if line.startswith("# ")]
    assert "mapInArrow" in calls[0]
    run(
        f"""{DATA}
{page}
import pandas as pd
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
std, landmarks = np.full(2000, 0.5), np.linspace(-2, 2, 15)
table = spark.createDataFrame(pd.DataFrame(dict(x=x, y=y, mean=mean, std=std))).repartition(5)
{calls[0]}
assert len(rows) == 5
there = total(row.sums for row in rows)
here = fm.streaming.CCE(fm.RBF(0.5), fm.RBF(0.5), landmarks)
here = here.update(x, y, fm.Gaussian(mean, std)).compute()
assert abs(there.value / here.value - 1) < 1e-12 and there.rows == 2000
spark.stop()
""",
        tmp_path,
        PYSPARK_PYTHON=sys.executable,
    )


def test_a_slurm_cluster_runs_the_job_scripts(tmp_path):
    """A stand-in for ``sbatch`` runs the job script that dask-jobqueue writes for SLURM."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    programs = {
        "sbatch": '#!/bin/bash\nbash "$1" > /dev/null 2>&1 &\necho Submitted batch job $!\n',
        "scancel": '#!/bin/bash\npkill -P "$1"\nkill "$1"\n',
    }
    for name, text in programs.items():
        program = tmp_path / name
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    run(
        f"""{DATA}
if __name__ == "__main__":
    import dask.array as da
    from dask_jobqueue import SLURMCluster
    from distributed import Client
    with SLURMCluster(
        cores=1, processes=1, memory="1GB", walltime="00:10:00", interface="lo",
        scheduler_options={{"dashboard_address": ":0"}},
    ) as cluster:
        script = cluster.job_script()
        assert "#SBATCH --cpus-per-task=1" in script and "distributed.cli.dask_worker" in script
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=60)
            blocks = [da.from_array(one, chunks=200) for one in (x, y, mean)]
            there = fm.evaluate(blocks[1], fm.Gaussian(blocks[2], 0.5), blocks[0])
    here = fm.evaluate(blocks[1], fm.Gaussian(blocks[2], 0.5), blocks[0])
    assert there.to_dict()["metrics"] == here.to_dict()["metrics"]
""",
        tmp_path,
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    )
