"""Small files in the forms that other tools write, with numbers of our own.

What the forms look like was learned from the tools and their documents: nvidia-smi and dcgmi (NVIDIA), Zeus
(ml-energy/zeus, Apache-2.0), codecarbon (mlco2/codecarbon, MIT), Kernel Tuner (KernelTuner/kernel_tuner,
Apache-2.0), PTDaemon's log (mlcommons/power-dev, Apache-2.0), InferenceX (SemiAnalysisAI/InferenceX,
Apache-2.0), and the table of operations of aiconfigurator (ai-dynamo/aiconfigurator, Apache-2.0).
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# A board that drew 120 W until second 5, and 500 W from then until second 25.
SECONDS = range(31)
POWER_W = [500.0 if 6 <= t <= 25 else 120.0 for t in SECONDS]


def smi(path: Path) -> Path:
    lines = ["timestamp, index, name, power.draw [W]"]
    lines += [
        f"2026/01/15 12:34:{t:02d}.250, {gpu}, NVIDIA H100 80GB HBM3, {p + gpu:.2f} W"
        for t, p in zip(SECONDS, POWER_W, strict=True)
        for gpu in (0, 1)
    ]
    return _write(path / "smi.csv", lines)


def dmon(path: Path) -> Path:
    lines = ["# gpu    pwr  gtemp  mtemp     sm", "# Idx      W      C      C      %"]
    lines += [f"    0  {p:.0f}     45      -     13" for p in POWER_W]
    return _write(path / "dmon.txt", lines)


def dcgm(path: Path) -> Path:
    lines = []
    energy_mj = 2.5e11
    for t, power_w in zip(SECONDS, POWER_W, strict=True):
        if t % 25 == 0:
            lines += ["#Entity   POWER    TOTEC", "ID          W       mJ"]
        energy_mj += 1e3 * power_w
        lines.append(f"GPU 0     {power_w:.3f}  {energy_mj:.0f}")
    return _write(path / "dcgm.txt", lines)


def ptdaemon(path: Path) -> Path:
    row = "Time,28-12-2020 15:21:{:02d}.682,Watts,{:.6f},Volts,228.570000,Amps,9.2,PF,0.98,Mark,run_testing"
    return _write(path / "spl.txt", [row.format(t, 1800 + p) for t, p in zip(SECONDS, POWER_W, strict=True)])


def zeus(path: Path) -> Path:
    lines = ["start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy"]
    lines += ["1730000000.5,epoch,60.0,30000.0,29000.0", "1730000060.6,step,0.05,0.0,24.0"]
    return _write(path / "zeus.csv", lines)


def codecarbon(path: Path) -> Path:
    names = "timestamp,project_name,run_id,duration,emissions,cpu_power,gpu_power,gpu_energy,energy_consumed"
    row = "2026-05-31T10:39:13,train,409f7ac2-203f,600.0,1e-05,42.5,900.0,0.15,0.2"
    return _write(
        path / "emissions.csv", [f"{names},gpu_count,gpu_model", f"{row},2,2 x NVIDIA H100 80GB HBM3"]
    )


def kernel_tuner(path: Path, *, is_closed: bool = True) -> Path:
    one = {"block_size_x": 128, "time": 3.0, "nvml_energy": 0.9, "nvml_power": 300.0, "ps_energy": 0.95}
    cache = {"device_name": "NVIDIA H100 80GB HBM3", "kernel_name": "add", "cache": {"128": one}}
    text = json.dumps(cache)
    (path / "cache.json").write_text(text if is_closed else text.removesuffix("}}") + ",\n")
    return path / "cache.json"


def inference(path: Path) -> Path:
    bundle = {
        "power_valid": True,
        "benchmark_window": {"start_time_unix": 0.0, "end_time_unix": 300.0, "integration_duration_s": 300.0},
        "observed_gpu_count": 2,
        "per_gpu_energy_j": {"0": 150000.0, "1": 151000.0},
        "metrics": {"total_gpu_energy_j": 301000.0},
    }
    (path / "power_validation.json").write_text(json.dumps(bundle))
    return path / "power_validation.json"


def inference_result(path: Path) -> Path:
    result = {
        "hw": "h100",
        "avg_power_w": 501.0,
        "avg_total_gpu_power_w": 1002.0,
        "total_gpu_energy_j": 301000.0,
    }
    (path / "agg.json").write_text(json.dumps(result))
    return path / "agg.json"


def operations(path: Path) -> Path:
    rows = {
        "op_name": ["gemm"] * 3,
        "m": [2048, 4096, 65536],
        "device": ["NVIDIA H200"] * 3,
        "latency": [0.025, 0.21, 60.0],
        "power": [310.0, 692.0, float("nan")],
        "power_limit": [700.0] * 3,
    }
    pq.write_table(pa.table(rows), path / "gemm.parquet")
    return path / "gemm.parquet"


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path
