"""Files of results of `veloc-bench`, and what was measured on one device."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from .chart import size

#: An object of the files.
Json = dict[str, Any]

#: The version of the layout of the files.
SCHEMA = 2


def read(paths: Iterable[str]) -> tuple[list[tuple[pathlib.Path, Json]], list[str], list[str]]:
    """The results in files, or in all files *.json of folders; files of other kinds; and failures."""
    found: list[tuple[pathlib.Path, Json]] = []
    others: list[str] = []
    damaged: list[str] = []
    for path in map(pathlib.Path, paths):
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            try:
                text = file.read_text(encoding="utf-8")
                # A trace may be cut at its end.
                content: Any = [] if text.lstrip().startswith("[") else json.loads(text)
            except (OSError, ValueError) as error:
                damaged.append(f"{file}: {error}")
                continue
            if "measurements" not in content:
                kind = "timeline" if "traceEvents" in content or content == [] else "schedule"
                kind = "snapshot" if "title" in content and content["title"] == "snapshot" else kind
                drawable = kind != "schedule" or "drawing" in content
                draws = f"; if it is a {kind}, `python -m veloc.plot {kind} {file}` draws it"
                others.append(f"{file} holds no results" + draws * drawable)
            elif content.get("schema") != SCHEMA:
                damaged.append(f"{file}: schema {content.get('schema')}, not {SCHEMA}")
            else:
                found.append((file, content))
    return found, others, damaged


@dataclasses.dataclass
class Pool:
    """What was measured on one device, with the runs of equal plans together."""

    device: str
    files: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    origin: list[str] = dataclasses.field(default_factory=list)
    commits: list[str] = dataclasses.field(default_factory=list)
    left_out: list[str] = dataclasses.field(default_factory=list)
    points: dict[str, Json] = dataclasses.field(default_factory=dict)
    floors: dict[str, Json] = dataclasses.field(default_factory=dict)
    initialisation: dict[tuple[str, int, int, int], list[list[float]]] = dataclasses.field(default_factory=dict)

    def add(self, file: pathlib.Path, results: Json) -> None:
        """Takes in one file."""
        self.files.append(str(file))
        keep(self.warnings, results.get("warning"))
        keep(self.origin, machine_text(results["machine"]))
        keep(self.origin, driver_text(results.get("device")))
        keep(self.commits, results["program"]["commit"])
        for reason in results.get("left_out", ()):
            keep(self.left_out, reason)
        for new in results["measurements"]:
            known = self.points.setdefault(json.dumps(new["plan"], sort_keys=True), new)
            if known is not new:
                known["runs"] += new["runs"]
                known["failures"] += new["failures"]
                known["not_begun"] = known["not_begun"] and new["not_begun"]
        for new in results.get("floors", ()):
            known = self.floors.setdefault(floor_key(new), new)
            if known is not new:
                known["passes"] += new["passes"]
        for new in results.get("initialisation", ()):
            key = new["what"], new["processes"], new["bytes"], new["step"]
            self.initialisation.setdefault(key, []).extend(new["seconds"])

    def floor(self, plan: Json) -> Json | None:
        """Bare copies of the bytes of a plan, if any were made."""
        return self.floors.get(floor_key(plan))

    def foot(self) -> list[str]:
        """Where and with what it was measured."""
        several = "pooled from several commits:" if len(self.commits) > 1 else "commit"
        return [*self.origin, f"{several} {', '.join(self.commits)}"]


def by_device(files: Iterable[tuple[pathlib.Path, Json]]) -> list[Pool]:
    """One pool for each device, of files with their contents."""
    pools: dict[str, Pool] = {}
    for file, results in files:
        device = results.get("device") or {"name": f"no device, {results['machine']['processor']}"}
        software = device.get("software") and "software" not in device["name"]
        name = device["name"] + " (software)" * bool(software)
        pools.setdefault(name, Pool(name)).add(file, results)
    return list(pools.values())


def keep(known: list[str], new: str | None) -> None:
    """Adds what is not there yet."""
    if new and new not in known:
        known.append(new)


def floor_key(plan: Json) -> str:
    """What plans of the same floor have in common."""
    return json.dumps([plan["processes"], plan["sizes"]])


def machine_text(machine: Json) -> str:
    """A machine in words."""
    nodes = f" in {machine['memory_nodes']} nodes" if machine["memory_nodes"] > 1 else ""
    return (
        f"{machine['processor']}, {machine['processors']} processors, {size(machine['memory'])}"
        f"{nodes}, Linux {machine['kernel']}, huge pages: {machine['huge_pages']}"
    )


def driver_text(device: Json | None) -> str:
    """A driver in words."""
    if not device:
        return ""
    cuda = f"CUDA {device['cuda'] // 1000}.{device['cuda'] % 1000 // 10}"
    return f"driver {device['driver']}, {cuda}" if device["driver"] else cuda


def processes(point: Json) -> list[Json]:
    """The figures of all processes of all repeats."""
    return [figures for run in point["runs"] for figures in run["processes"]]


def values(point: Json, figure: Callable[[Json], float]) -> list[float] | str:
    """By repeat the mean over its processes; if there is no repeat, why."""
    if not point["runs"]:
        return "failed" if point["failures"] else "not measured"
    return means(point, figure)


def means(point: Json, figure: Callable[[Json], float]) -> list[float]:
    """By repeat the mean over its processes."""
    every = [[figure(one) for one in run["processes"]] for run in point["runs"]]
    return [sum(one) / len(one) for one in every]


def extent(points: Collection[Json]) -> list[str]:
    """How much was measured of what was planned, and why the rest was not."""
    failed = sum(bool(point["failures"]) for point in points if not point["runs"])
    measured = sum(bool(point["runs"]) for point in points)
    text = f"{measured} of {len(points)} points measured"
    text += f", {failed} failed" if failed else ""
    if measured + failed < len(points):
        text += f", {len(points) - measured - failed} not begun"
    repeats = sorted({len(point["runs"]) for point in points if point["runs"]})
    if repeats:
        text += f"; repeats: {repeats[0]}" + f" to {repeats[-1]}" * (len(repeats) > 1)
    lines = [text]
    for point in points:
        plan = point["plan"]
        facts = f"{plan['approach']}, {text_of(plan, 'processes')}, every {plan['interval_ms']:g} ms"
        lines += [f"FAILED: {facts}: {failure}" for failure in point["failures"]]
        if not point["runs"] and point["not_begun"]:
            keep(lines, f"NOT BEGUN: {point['not_begun']['text']}")
    return lines


def value_of(plan: Json, field: str) -> Any:
    """What has to be equal for two plans to be equal in a field."""
    if field in ("sizes", "first sizes"):
        return plan["workload"], plan["sizes"] if field == "sizes" else plan["sizes"][0]
    if field == "order":
        return plan["order"], plan["hints"], plan["seed"] if plan["order"] == "random" else None
    return (plan["touch"], plan["pin"]) if field == "variant" else plan[field]


def text_of(plan: Json, field: str) -> str:
    """The same for people."""
    first = plan["sizes"][0]
    each = f" of {size(first[0])}" if uniform(plan) else f", sizes: {plan['workload']}"
    texts: dict[str, str] = {
        "configuration": plan["configuration"],
        "processes": f"{plan['processes']} process" + "es" * (plan["processes"] > 1),
        "sizes": f"{len(first)} checkpoints{each}",
        "first sizes": f"{len(first)} checkpoints{each}",
        "interval_ms": f"{plan['interval_ms']:g} ms between checkpoints",
        "compute": "device busy between" if plan["compute"] == "kernel" else "device idle between",
        "device_cache": f"device cache {size(plan['device_cache'])}",
        "host_cache": f"host buffer {size(plan['host_cache'])}",
        "order": f"order of restores: {plan['order']}, hints ahead: {plan['hints']}",
        "verify": "bytes compared" if plan["verify"] else "bytes not compared",
        "variant": f"touch {plan['touch']}, pin {plan['pin']}",
        "settings": ", ".join(plan["settings"]) or "defaults",
    }
    return texts[field]


def uniform(plan: Json) -> bool:
    """Whether all checkpoints have the same size."""
    return len({size for sizes in plan["sizes"] for size in sizes}) == 1


def groups(points: Iterable[Json], fields: Sequence[str]) -> list[list[Json]]:
    """Lists of points that agree in these fields."""
    found: dict[str, list[Json]] = {}
    for point in points:
        key = json.dumps([value_of(point["plan"], field) for field in fields])
        found.setdefault(key, []).append(point)
    return list(found.values())
