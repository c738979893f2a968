#!/usr/bin/env python3
"""Runs the original and the relinked migration in turns, and compares their images byte by byte.

    measure.py --original ENGINE --relinked ENGINE --workload DIR --out DIR --work DIR --until SECONDS [--repeats N]

Every run is written to OUT as soon as it has ended: a line in summary.txt, all of it in results-SIZE.json, its output
at the end of runs.log. UNTIL is a time of `date +%s`; a run that would not end before it is not begun.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy

TIMERS = {"forward": "Engine::Forward", "backward": "Engine::Backward", "store": "ForwardCollector::SaveForward",
          "fetch": "ForwardCollector::FetchForward", "shots": "Engine::MigrateShot"}


class Memory(threading.Thread):
    """The most memory of the device in use, by nvidia-smi, while it runs."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = None
        self.process = None
        if shutil.which("nvidia-smi"):
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "200"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.start()

    def run(self):
        for line in self.process.stdout:
            if line.split(",")[0].strip().isdigit():
                self.most = max(self.most or 0, int(line.split(",")[0]))

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.join(2)
        return self.most


def run(command, folder, environment, limit):
    """Exit code (negative: signal; None: out of time), wall seconds and peak RSS in MiB of a process."""
    with open(folder / "output.txt", "wb") as output:
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        late = False
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            wall = time.monotonic() - begin
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
            if not late and wall > limit:
                late = True
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.002)
    return None if late else process.returncode, wall, usage.ru_maxrss / 1024


def image(path):
    data = path.read_bytes()
    values = numpy.frombuffer(data, numpy.float32)
    finite = numpy.isfinite(values)
    return data, {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "finite": bool(finite.all()),
                  "nonzero": round(float((values != 0).mean()), 4) if len(values) else 0.0,
                  "min": float(values[finite].min(initial=0)), "max": float(values[finite].max(initial=0))}


def figures(text):
    found = {}
    for key, pattern in ("compute", r"Compute time: ([\d.e+-]+)"), ("total", r"Total Execution Time: ([\d.e+-]+)"):
        match = re.search(pattern, text)
        if match:
            found[key] = float(match[1])
    for key, name in TIMERS.items():
        match = re.search(rf"Function name: {re.escape(name)}\n(?:.*\n)*?Total Runtime: ([\d.e+-]+)", text)
        if match:
            found[key] = float(match[1])
    window = re.search(r"- wnx\s*: (\d+)\s+- wny\s*: \d+\s+- wnz\s*: (\d+)", text)
    if window:
        found["points"] = [int(window[1]), int(window[2])]
    found["veloc"] = re.findall(r"^veloc: .*$", text, re.MULTILINE)
    waits = re.findall(r"^veloc: waited (\w+) ([\d.]+) s", text, re.MULTILINE)
    calls = re.search(r"calls checkpoint ([\d.]+) s, restart ([\d.]+) s", text)
    if calls:
        found["checkpoint_calls"], found["restart_calls"] = float(calls[1]), float(calls[2])
    if waits:
        found["waited"] = {cause: float(seconds) for cause, seconds in waits if float(seconds) >= 1e-4}
    return found


class Comparison:
    def __init__(self, options):
        self.options = options
        self.out, self.work = Path(options.out), Path(options.work)
        self.workload = Path(options.workload)
        self.facts = json.loads((self.workload / "facts.json").read_text())
        self.results = {"workload": self.facts, "runs": []}
        self.reference = None
        self.longest = {}
        third = f"{-(-self.facts['shot_bytes'] // 3 >> 20) + 2}M"
        small = min(64 << 20, self.facts["ring_bytes"] // 2)
        scratch = self.work / "scratch"
        self.variants = {
            "original": None,
            "relinked": {},
            f"relinked, device {small >> 20}M": {"gpu_cache_size": f"{small >> 20}M"},
            "relinked, in thirds": {"gpu_cache_size": third, "host_cache_size": third, "scratch": str(scratch)},
        }

    def say(self, text):
        print(text, flush=True)
        with open(self.out / "summary.txt", "a") as summary:
            summary.write(text + "\n")

    def save(self):
        part = self.work / "results.json"
        part.write_text(json.dumps(self.results, indent=1))
        shutil.copy(part, self.out / f"results-{self.facts['size']}.json")

    def once(self, variant, repeat, limit):
        folder = self.work / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.work / "scratch", ignore_errors=True)
        (folder / "results").mkdir(parents=True)
        for stale in self.workload.glob("*.idxsegy"):
            stale.unlink()
        settings = self.variants[variant]
        environment = dict(os.environ)
        environment.pop("VELOC_TRACE", None)
        if settings is not None:
            keys = {"mode": "async", "ephemeral": "true"} | settings
            (folder / "veloc.cfg").write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
            environment |= {"VELOC_CFG": str(folder / "veloc.cfg"), "VELOC_FIGURES": "1"}
            if "scratch" in settings:
                Path(settings["scratch"]).mkdir(parents=True)
        engine = self.options.original if settings is None else self.options.relinked
        command = [engine, "-m", str(self.workload), "-w", str(folder / "results")]
        memory = Memory()
        code, wall, rss = run(command, folder, environment, limit)
        device = memory.stop()
        text = (folder / "output.txt").read_bytes().replace(b"\r", b"\n").decode(errors="replace")
        result = {"variant": variant, "repeat": repeat, "settings": settings, "exit": code, "wall": round(wall, 3),
                  "rss_mib": round(rss), "device_mib": device} | figures(text)
        raw = folder / "results" / "raw_migration.bin"
        if raw.is_file():
            data, result["image"] = image(raw)
            if self.reference is None and settings is None:
                self.reference = data
            if self.reference is not None:
                result["identical"] = data == self.reference
        with open(self.out / "runs.log", "a") as log:
            kept = "\n".join(line for line in text.splitlines() if "Propagation\t" not in line)
            log.write(f"==== {self.facts['size']}: {variant}, {repeat}: exit {code}\n{kept[-20000:]}\n")
        self.results["runs"].append(result)
        self.save()
        seconds = " ".join(f"{key} {result[key]:.2f}" for key in ("compute", "forward", "backward", "store", "fetch")
                           if key in result)
        picture = result.get("image", {})
        self.say(f"{self.facts['size']:5} {variant:24} {repeat}: exit {code}, wall {wall:.2f} s, {seconds}, "
                 f"rss {rss:.0f} MiB, device {device} MiB, image {picture.get('sha256', 'none')[:16]} "
                 f"identical {result.get('identical')} finite {picture.get('finite')} nonzero {picture.get('nonzero')} "
                 f"min {picture.get('min')} max {picture.get('max')}")
        for line in result["veloc"]:
            self.say("      " + line)
        self.longest[variant] = max(wall, self.longest.get(variant, 0))
        return code == 0

    def all(self):
        failed = set()
        for repeat in range(1, self.options.repeats + 1):
            for variant in self.variants:
                left = self.options.until - time.time()
                need = 1.2 * self.longest.get(variant, max(self.longest.values(), default=0)) + 2
                if variant in failed or left < max(need, 4):
                    continue
                if not self.once(variant, repeat, min(self.options.limit, left - 1)):
                    failed.add(variant)
        self.table()

    def table(self):
        self.say(f"\n{self.facts['size']}: medians; {self.facts['shots']} shots of "
                 f"{self.facts['shot_bytes'] / 2**30:.2f} GiB in {self.facts['rings']} checkpoints each")
        keys = ("wall", "compute", "forward", "backward", "store", "fetch", "checkpoint_calls", "restart_calls",
                "rss_mib", "device_mib")
        self.say(f"{'':26}" + "".join(f"{key.removesuffix('_calls'):>11}" for key in keys) + "  identical")
        for variant in self.variants:
            runs = [r for r in self.results["runs"] if r["variant"] == variant and r["exit"] == 0]
            if not runs:
                continue
            row = f"{variant:24} {len(runs)}"
            for key in keys:
                values = [r[key] for r in runs if r.get(key) is not None]
                row += f"{numpy.median(values):11.2f}" if values else f"{'-':>11}"
            self.say(row + f"  {all(r.get('identical') is True for r in runs)}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("original", "relinked", "workload", "out", "work"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--until", type=float, required=True)
    parser.add_argument("--limit", type=float, default=90)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    comparison = Comparison(options)
    comparison.all()
    good = [r for r in comparison.results["runs"] if r["exit"] == 0 and r.get("identical") and r["image"]["finite"]
            and r["image"]["nonzero"] > 0]
    raise SystemExit(0 if len(good) == len(comparison.results["runs"]) > 1 else 1)


if __name__ == "__main__":
    main()
