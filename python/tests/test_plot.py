"""Pictures: what is in them, of results, traces and plans that are made here."""

import contextlib
import copy
import importlib.util
import io
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings



def has_matplotlib():
    if importlib.util.find_spec("matplotlib") is None:
        return False
    import matplotlib

    return matplotlib.__version_info__ >= (3, 7)


HAS_MATPLOTLIB = has_matplotlib()
if HAS_MATPLOTLIB:
    from veloc.plot import __main__ as command
    from veloc.plot import figures, results, timeline

WARNING = "measured on the software device, which is no GPU: its times mean nothing"
INTERVALS = (5.0, 20.0)


def run_of(plan, time):
    """One repeat, whose processes were blocked for about `time` in all."""
    count = len(plan["sizes"][0])
    cause = {"count": 1}
    figures = {
        "init": 0.1 * time,
        "checkpoints": [0.5 * time / count] * count,
        "restores": [0.4 * time / count] * count,
        "forward_intervals": [1.02 * plan["interval_ms"]] * count,
        "backward_intervals": [0.99 * plan["interval_ms"]] * count,
        "quiet_interval": plan["interval_ms"],
        "wrong_versions": 0,
        "causes": [
            {"name": "initialisation", "call": "init", "seconds": 0.1 * time, **cause},
            {"name": "copy", "call": "checkpoint", "seconds": 0.3 * time, **cause},
            {"name": "device room", "call": "checkpoint", "seconds": 0.2 * time, **cause},
            {"name": "copy", "call": "restore", "seconds": 0.4 * time, **cause},
        ],
        "hops": [
            {"name": "AtoD", "bytes": 1 << 29, "seconds": 0.0004},
            {"name": "DtoH", "bytes": 1 << 29, "seconds": 0.02},
            {"name": "HtoF", "bytes": 0, "seconds": 0},
        ],
    }
    return {"processes": [copy.deepcopy(figures) for _ in range(plan["processes"])]}


def point(approach, interval=20.0, time=1.0, **plan):
    """A point with three repeats: 0.9, 1 and 1.2 of the time."""
    plan = {
        "approach": approach, "configuration": "large-host", "processes": 1,
        "sizes": [[128 << 20] * 4], "workload": "uniform", "interval_ms": interval,
        "compute": "kernel", "device_cache": 256 << 20, "host_cache": 1 << 30, "order": "reverse",
        "hints": "all", "touch": "auto", "pin": "chunked", "settings": [], "verify": True, "seed": 1,
        **plan,
    }
    runs = [run_of(plan, factor * time) for factor in (1.2, 0.9, 1.0)]
    return {"plan": plan, "runs": runs, "failures": [], "not_begun": None}


def sweep(**plan):
    """Three approaches at two intervals."""
    times = {"ours": 1.0, "direct-pin": 12.5, "uvm": 5.0}
    return [point(name, at, time, **plan) for name, time in times.items() for at in INTERVALS]


def absent(point, failure=None):
    """The point without figures: it failed, or was not begun."""
    point["runs"] = []
    if failure:
        point["failures"] = [failure]
    else:
        point["not_begun"] = {"why": "budget", "text": "the time was up: --budget 60 seconds"}
    return point


def file_of(points, name="Synthetic", software=False, commit="0123456"):
    """What stands in a file of results."""
    floors = {json.dumps([p["plan"]["processes"], p["plan"]["sizes"]]): p["plan"] for p in points}
    return {
        "schema": 2, "title": "synthetic", "program": {"commit": commit},
        "machine": {"processor": "P", "processors": 2, "memory": 1 << 30, "memory_nodes": 1,
                    "kernel": "6.1", "huge_pages": "madvise"},
        "device": {"name": name, "memory": 0, "driver": "550.54", "cuda": 12080,
                   "software": software},
        "warning": WARNING if software else None,
        "measurements": points,
        "floors": [{"processes": p["processes"], "sizes": p["sizes"], "passes": [0.03, 0.01, 0.02],
                    "copies": [0.005] * 4} for p in floors.values()],
        "left_out": [], "initialisation": [],
    }


def pool(points, **file):
    """The pool of one file."""
    (found,) = results.by_device([("r.json", file_of(points, **file))])
    return found


def drawn(points, **file):
    """The figures of one file by name."""
    return figures.pictures(pool(points, **file))[0]


def axes_of(figure):
    """The axes of its panels."""
    return figure.subfigs[1].axes


def texts(figure):
    """All that is written in a figure."""
    import matplotlib.text

    return [text.get_text().replace("\xa0", " ") for text in figure.findobj(matplotlib.text.Text)]


def bars_of(axes, label):
    """The heights of the bars of a series."""
    (container,) = (c for c in axes.containers if c.get_label() == label and hasattr(c, "patches"))
    return [patch.get_height() for patch in container]


class WithoutMatplotlib(unittest.TestCase):
    def test_only_pictures_need_it(self):
        """Catches an import of matplotlib, or of the library, by `import veloc` or by the command's
        own module, and a traceback where one line says what to install."""
        code = (
            "import sys; sys.modules['matplotlib'] = None; import veloc; "
            "from veloc.plot.__main__ import main; sys.exit(main(['results', 'none.json']))"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 1)
        said = "error: pictures need matplotlib: pip install matplotlib (or veloc[plot])\n"
        self.assertEqual(ran.stderr, said)


@unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib 3.7 is not installed")
class Results(unittest.TestCase):
    def test_every_kind_of_picture(self):
        """Catches a kind that is gone, or that cannot be drawn without a warning."""
        uneven = [[4 << 20, 64 << 20, 8 << 20, 8 << 20], [12 << 20] * 4]
        points = [
            *sweep(),
            *sweep(sizes=uneven, workload="shots.csv", processes=2),
            *sweep(configuration="large-device", host_cache=0),
            *sweep(processes=4),
            *sweep(host_cache=2 << 30),
            *(point("ours", at, touch=touch) for at in INTERVALS for touch in ("sequential", "concurrent")),
            *(point("ours", at, settings=["pin_chunk_size = 8M"]) for at in INTERVALS),
        ]
        file = file_of(points)
        file["initialisation"] = [
            {"what": "host: touched", "processes": count, "bytes": 1 << 30, "step": step,
             "seconds": [[0.5] * count, [0.6] * count]} for count in (1, 2, 4) for step in (0, 4096)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (found,) = results.by_device([("r.json", file)])
            pages, missing = figures.pictures(found)
            for page in pages.values():
                page.savefig(io.BytesIO())
        kinds = "3a 3b 3c 4a 4b 4c 5a 5b 5c 6a 6b 6c settings causes disturbance each hops".split()
        self.assertEqual({name.split("-")[0] for name in pages}, set(kinds))
        self.assertEqual(missing, [])
        for name, page in pages.items():
            self.assertTrue(all(axes.get_xlabel() and axes.get_ylabel() for axes in axes_of(page)
                                if "causes" not in name), name)

    def test_a_bar_is_the_median_and_its_line_goes_from_the_least_to_the_greatest(self):
        """Catches means, the wrong unit, a floor of one way only, and a ratio the wrong way round."""
        found = drawn(sweep())
        (axes,) = axes_of(found["5b-checkpoints-and-restores"])
        self.assertEqual(axes.get_ylabel(), "blocked per process (s)")
        self.assertEqual(axes.get_yscale(), "log")
        for label, time in (("ours", 1.0), ("direct-pin", 12.5), ("uvm", 5.0)):
            for height in bars_of(axes, label):
                self.assertAlmostEqual(height, time)
        bars = next(c for c in axes.containers if c.get_label() == "ours" and hasattr(c, "patches"))
        ((low, high), *_) = ([y for _, y in path] for path in bars.errorbar.lines[2][0].get_segments())
        self.assertAlmostEqual(low, 0.9)
        self.assertAlmostEqual(high, 1.2)
        floors = {tuple(y for _, y in of.get_segments()[0]) for of in axes.collections
                  if of.get_label().startswith("floor")}
        self.assertEqual(floors, {(0.04, 0.04)})
        self.assertEqual(texts(axes).count("12.5 x"), 2)
        (axes,) = axes_of(found["5a-checkpoints"])
        self.assertAlmostEqual(bars_of(axes, "ours")[0], 0.6)

    def test_what_was_not_measured_is_said_and_is_no_bar_of_0(self):
        """Catches bars of 0, the wrong word, and a heading that keeps silent about it."""
        points = sweep()
        absent(points[0], "out of memory")
        absent(points[2])
        found = drawn(points)
        self.assertIn("5b-checkpoints-and-restores", found)
        for name, panels in (("5a-checkpoints", 1), ("causes", 2), ("disturbance", 2)):
            written = texts(found[name])
            self.assertEqual((written.count("failed"), written.count("not measured")), (panels, panels), name)
            heading = " ".join(written)
            for said in ("4 of 6 points measured, 1 failed, 1 not begun; repeats: 3",
                         "FAILED: ours, 1 process, every 5 ms: out of memory", "NOT BEGUN: the time was up"):
                self.assertIn(said, heading.replace("\n", " "))
        (axes,) = axes_of(found["5a-checkpoints"])
        failed, measured = bars_of(axes, "ours")
        self.assertTrue(math.isnan(failed) and measured > 0)

    def test_causes_add_up(self):
        """Catches a call that is counted in both panels, sums that are no shares, and means over one
        process or repeat alone."""
        points = [point("ours", processes=2), point("direct-pin", time=100.0, processes=2)]
        del points[0]["runs"][0]["processes"][1:]
        left, right = (axes for axes in axes_of(drawn(points)["causes"]))
        for axes in (left, right):
            tops = [max(bar.get_y() + bar.get_height() for of in axes.containers for bar in of
                        if round(bar.get_x() + bar.get_width() / 2, 3) == at) for at in (-0.2, 0.2)]
            self.assertAlmostEqual(tops[0], 100)
            self.assertAlmostEqual(tops[1], 100)
        self.assertAlmostEqual(left.containers[0][0].get_height(), 100 * 0.3 / 0.6)
        self.assertAlmostEqual(right.containers[0][0].get_height(), 100 * 0.7)
        # Of 5 processes: 1.2, and two of 0.9 and 1; of 6 of the other.
        self.assertIn("1.00 s", texts(right))
        self.assertIn("103 s", texts(right))

    def test_what_is_not_alike_is_in_different_pictures(self):
        """Catches a picture that mixes setups, and settings of ours beside other approaches."""
        points = [*sweep(), *sweep(device_cache=512 << 20), point("ours", 5.0, 9.0, pin="off")]
        found = drawn(points)
        names = [name for name in found if name.startswith("5a")]
        self.assertEqual(names, ["5a-checkpoints-device-cache-256-mib", "5a-checkpoints-device-cache-512-mib"])
        (axes,) = axes_of(found[names[0]])
        self.assertAlmostEqual(bars_of(axes, "ours")[0], 0.6, msg="the defaults speak for ours")
        self.assertIn("5c-touch-and-pin", found)

    def test_files_of_one_device_are_pooled_and_devices_never_mixed(self):
        """Catches devices in one pool, runs of equal plans kept apart, and a commit that is lost."""
        files = [file_of([point("ours")], *of) for of in (
            ("H200", False, "aaa"), ("soft", True), ("H200", True), ("H200", False, "bbb"))]
        pools = results.by_device((f"{at}.json", file) for at, file in enumerate(files))
        self.assertEqual([(p.device, len(p.files)) for p in pools],
                         [("H200", 2), ("soft (software)", 1), ("H200 (software)", 1)])
        (both,) = pools[0].points.values()
        self.assertEqual((len(both["runs"]), pools[0].foot()[-1]),
                         (6, "pooled from several commits: aaa, bbb"))
        self.assertEqual(len(pools[0].floor(both["plan"])["passes"]), 6)

    def test_the_software_device_and_wrong_bytes_are_in_every_picture(self):
        """Catches a picture that could be taken for one of a GPU, or for one of a library that works."""
        points = sweep()
        for one in points:
            one["runs"][0]["processes"][0]["wrong_versions"] = 1
        found = drawn(points, software=True)
        self.assertGreater(len(found), 5)
        for name, figure in found.items():
            written = " ".join(texts(figure))
            self.assertIn(WARNING, written, name)
            self.assertIn("6 restored versions had wrong bytes", written, name)
            self.assertIn("Synthetic (software)", written, name)

    def test_times_of_0_are_drawn(self):
        """Catches logarithms of 0."""
        points = [point("ours", 5.0, 0.0), point("direct-pin", 5.0, 30.0), point("uvm", 5.0, 0.01)]
        figure = drawn(points)["5a-checkpoints"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure.draw_without_rendering()
        self.assertNotIn("x", [text[-1:] for text in texts(figure)])

    def test_the_command_draws_what_it_can_and_names_the_rest(self):
        """Catches one bad file that stops all others, and one that nobody hears of."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a.json").write_text(json.dumps(file_of(sweep())))
            (folder / "b.json").write_text(json.dumps(file_of(sweep(), "Other")))
            (folder / "trace.json").write_text("[\n{")
            (folder / "pages.json").write_text('{"title": "pages", "points": []}')
            code, out, error = run("results", name, "--out", f"{name}/out")
            self.assertEqual((code, error), (0, ""))
            for device in (1, 2):
                for ending in ("svg", "png"):
                    path = folder / "out" / f"device-{device}-5a-checkpoints.{ending}"
                    self.assertGreater(path.stat().st_size, 1000)
            for said in ("not drawn: 3a", "pages.json holds no results", "veloc.plot timeline",
                         "commit 0123456", "6 of 6 points measured"):
                self.assertIn(said, out)
            (folder / "b.json").unlink()
            (folder / "cut.json").write_text('{"schema": 2, "measure')
            (folder / "old.json").write_text(json.dumps({**file_of([]), "schema": 1}))
            code, out, error = run("results", name, "--out", f"{name}/out")
            self.assertEqual(code, 1)
            self.assertIn("cut.json", error)
            self.assertIn("old.json: schema 1, not 2", error)
            self.assertIn("5a-checkpoints", out)
            code, _, error = run("results", f"{name}/pages.json", "--out", f"{name}/out")
            self.assertEqual((code, error), (1, "error: there is nothing to draw in the files\n"))


@unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib 3.7 is not installed")
class Snapshots(unittest.TestCase):
    def test_ratios_are_drawn_with_their_goals(self):
        """Catches figures that are left out or mixed, and a file of another kind that is drawn."""
        points = [
            {"what": "fork: blocked, 1 GiB, small pages", "unit": "ms", "values": [27.0]},
            {"what": "fork: blocked, 1 GiB, small pages", "unit": "x disk", "values": [0.02, 0.03],
             "goal": {"at-most": 0.025}, "reached": True},
            {"what": "fork: blocked, 1 GiB, huge pages", "unit": "x disk", "values": [0.01]},
            {"what": "copy: blocked, 1 GiB, small pages", "unit": "x disk", "values": [0.1]},
            {"what": "fork, compress = lz4: file, 512 MiB, half of it random", "unit": "x bytes", "values": [0.5]},
        ]
        content = {"title": "snapshot", "points": points, "machine": file_of([])["machine"],
                   "program": {"commit": "0123456"}}
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "snapshot.json"
            path.write_text(json.dumps(content))
            code, _, error = run("snapshot", str(path), "--title", "$ it <is>")
            self.assertEqual((code, error), (0, ""))
            self.assertGreater(path.with_suffix(".png").stat().st_size, 1000)
            from veloc.plot import snapshot
            figure, _ = snapshot.draw(command.arguments().parse_args(["snapshot", str(path)]))
            disk, size = figure.axes
            self.assertEqual([bar.get_height() for bar in disk.patches][:2], [0.025, 0.1])
            self.assertEqual(disk.patches[2].get_height(), 0.01)
            self.assertEqual(len(disk.collections) > 0, True)
            self.assertEqual([bar.get_height() for bar in size.patches], [0.5])
            said = texts(figure)
            for text in ("fork\nblocked", "copy\nblocked", "fork + lz4\nfile", "1 GiB, huge pages", "x disk", "to reach, at most"):
                self.assertIn(text, said)
            path.write_text(json.dumps({"title": "pages", "points": []}))
            code, _, error = run("snapshot", str(path))
            self.assertEqual(code, 1)
            self.assertIn("snapshot.json is nothing that", error)


@unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib 3.7 is not installed")
class Arrays(unittest.TestCase):
    def test_iterations_lost_stand_by_the_size_of_the_cache(self):
        """Catches sizes that are out of order or left out, and times that are drawn with what is slower."""
        points = [
            {"what": "iterations lost, data of an iteration 8 caches", "unit": "iterations", "values": [1, 1, 2]},
            {"what": "iterations lost, data of an iteration 0.50 caches", "unit": "iterations", "values": [9, 10, 19]},
            {"what": "Monte Carlo, 1000000 lookups, not persistent memory", "unit": "% slower", "values": [0.25],
             "goal": {"at-most": 1.0}, "reached": True},
            {"what": "a mark behind the other, power", "unit": "us", "values": [0.3]},
        ]
        content = {"title": "pmem", "points": points, "machine": file_of([])["machine"],
                   "program": {"commit": "0123456"}}
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "pmem.json"
            path.write_text(json.dumps(content))
            code, _, error = run("pmem", str(path))
            self.assertEqual((code, error), (0, ""))
            self.assertGreater(path.with_suffix(".png").stat().st_size, 1000)
            from veloc.plot import pmem
            figure, _ = pmem.draw(command.arguments().parse_args(["pmem", str(path)]))
            lost, slower = figure.axes
            self.assertEqual([label.get_text() for label in lost.get_xticklabels()], ["0.5", "8"])
            self.assertEqual([bar.get_height() for bar in slower.patches], [0.25])
            said = " ".join(texts(figure)).replace("\n", " ")
            for text in ("iterations lost", "not persistent memory", "bytes of the cache"):
                self.assertIn(text, said)
            path.write_text(json.dumps({"title": "pages", "points": []}))
            code, _, error = run("pmem", str(path))
            self.assertEqual(code, 1)
            self.assertIn("pmem.json is nothing that", error)


def run(*arguments):
    """The exit code, standard output and standard error of the command."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            code = command.main(list(arguments))
    return code, out.getvalue(), error.getvalue()


def span(name, start, length, thread, pid=17, cat="veloc", **args):
    """An event that takes time, in µs."""
    return {"name": name, "cat": cat, "ph": "X", "ts": start, "dur": length, "pid": pid,
            "tid": thread, "args": args}


def trace(pid=17, rank="3", begin=0):
    """Two checkpoints, of which the second waits."""
    return [
        {"name": "veloc", "ph": "M", "pid": pid, "tid": 0, "args": {"rank": rank, "touch": "auto"}},
        {"name": "veloc", "ph": "M", "pid": pid, "tid": 0, "args": {"warning": "$ no <GPU>"}},
        span("copy", begin + 1000, 400, 1, pid, "blocked", version=1),
        span("checkpoint", begin + 1000, 500, 1, pid, version=1),
        span("device room", begin + 3000, 400, 1, pid, "blocked", version=2),
        span("checkpoint", begin + 3000, 500, 1, pid, version=2),
        span("flush", begin + 1500, 1900, 2, pid, version=1, bytes=100, untouched_bytes=60),
        span("touch", begin + 1000, 900, 3, pid, bytes=100),
        span("touch", begin + 1000, 600, 4, pid, bytes=100),
        span("solve", begin + 2000, 600, 5, pid),
        {"name": "touch mode", "ph": "i", "ts": begin + 1100, "pid": pid, "args": {"mode": "sequential"}},
        {"name": "touch mode", "ph": "i", "ts": begin + 1150, "pid": pid, "args": {"mode": "concurrent"}},
        {"name": "evict", "ph": "i", "ts": begin + 3400, "pid": pid, "args": {"tier": "device"}},
        {"name": "host touched", "ph": "C", "ts": begin + 1900, "pid": pid, "args": {"bytes": 1 << 20}},
    ]


def text_of(events):
    """A trace as the library writes it."""
    return "[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n"


@unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib 3.7 is not installed")
class Timelines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def figure(self, *arguments):
        figure, _ = timeline.draw(command.arguments().parse_args(["timeline", *arguments]))
        figure.savefig(io.BytesIO())
        return figure

    def test_every_span_is_drawn_where_it_belongs(self):
        """Catches a span that is left out or drawn twice, in a lane of others, or at another time."""
        figure = self.figure(self.write("t.json", text_of(trace())))
        axes, counters = figure.axes
        boxes = {}
        for of in axes.collections:
            for path in of.get_paths():
                (left, low), (right, high) = path.vertices.min(0), path.vertices.max(0)
                boxes.setdefault(of.get_label(), []).append((round(left, 3), round(right, 3)))
        self.assertEqual(boxes.pop("compute"), [(0.5, 2.0)])
        self.assertEqual({label: sorted(of) for label, of in boxes.items()}, {
            "rest of a checkpoint call": [(0.0, 0.5), (2.0, 2.5)],
            "blocked: copy": [(0.0, 0.4)],
            "blocked: device room": [(2.0, 2.4)],
            "flush to untouched pages": [(0.5, 2.4)],
            "touch": [(0.0, 0.6), (0.0, 0.9)],
            "touch between flushes": [(0.1, 0.15)],
            "touch beside flushes": [(0.15, 0.9)],
            "other": [(1.0, 1.6)],
        })
        lanes = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(lanes, ["application", "device cache", "flush (D2H)", "host buffer",
                                 "touch mode", "other"])
        (evictions,) = (line for line in axes.lines if line.get_label() == "eviction")
        self.assertAlmostEqual(evictions.get_xdata()[0], 2.4)
        self.assertEqual(max(counters.lines[0].get_ydata()), 1 << 20)
        self.assertIn("$ no <GPU>", texts(figure))

    def test_a_cut_trace_is_read(self):
        """Catches a reader that wants the end of the file, and one that takes half an event."""
        whole = text_of(trace())
        count = len(trace())
        for cut in range(whole.rindex("]")):
            events, missing = timeline.read(self.write("t.json", whole[:cut]))
            self.assertTrue(missing, cut)
            # All lines that are complete, to which a comma belongs.
            self.assertEqual(len(events), max(0, min(whole[:cut].count("\n") - 1, count)), cut)
        self.assertEqual(timeline.read(self.write("t.json", whole)), (trace(), False))
        killed = self.write("killed.json", "[")
        cut = self.write("cut.json", whole[:-20])
        code, _, error = run("timeline", cut, killed)
        self.assertEqual(code, 0)
        self.assertIn("cut.json: the end is missing", error)
        self.assertIn("killed.json has no spans", error)
        code, _, error = run("timeline", killed)
        self.assertTrue(code == 1 and "nothing to draw" in error, error)

    def test_files_share_an_axis_or_begin_together(self):
        """Catches processes of two files taken for one, the wrong order, and different origins."""
        early = self.write("a.json", text_of(trace(17, "12")))
        late = self.write("b.json", text_of(trace(17, "3", begin=90000)))
        for compare, titles, start in (
            ((), ["rank 3 (process 17)", "rank 12 (process 17)"], 90.0),
            (("--compare",), ["(A) touch = auto", "(B) touch = auto"], 0.0),
        ):
            figure = self.figure(late, early, *compare)
            lanes = figure.axes[::2]
            self.assertEqual([axes.get_title(loc="left") for axes in lanes], titles)
            calls = next(of for of in lanes[0].collections if "checkpoint" in of.get_label())
            self.assertAlmostEqual(calls.get_paths()[0].vertices.min(0)[0], start)
        figure = self.figure(late, early, "--process", "12", "--from", "1", "--to", "2")
        self.assertEqual(figure.axes[0].get_xlim(), (1.0, 2.0))

    def test_what_cannot_be_drawn_is_refused_by_name(self):
        """Catches tracebacks, and refusals that do not say what of."""
        whole = self.write("t.json", text_of(trace()))
        for arguments, said in (
            ((whole, "--process", "9"), "--process 9: there are rank 3 (process 17)"),
            ((whole, "--from", "1e9"), "--from 1e+09"),
            ((self.write("x.json", '{"a": 1}'),), "x.json is no trace"),
            ((self.write("x.json", "[1, 2]"),), "x.json is no trace"),
            ((self.write("x.json", "hello"),), "x.json is no trace"),
            ((str(self.folder / "none.json"),), "none.json"),
        ):
            code, _, error = run("timeline", *arguments)
            self.assertEqual((code, error.count("\n")), (1, 1))
            self.assertIn(said, error)


@unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib 3.7 is not installed")
class Schedules(unittest.TestCase):
    def test_a_plan(self):
        """Catches lines that are left out, and a file of another kind that is taken for a plan."""
        plan = {
            "plan": {"steps": 4, "slots": 2, "resilience": None}, "forward_evals": 6, "repetition": 1,
            "drawing": {"forward": [[0, 0, 4, 4]], "adjoint": [[4, 4, 10, 0]], "stored": [[0, 0, 10, 0]]},
        }
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name, "plan.json")
            path.write_text(json.dumps(plan))
            code, out, error = run("schedule", str(path))
            self.assertEqual((code, error), (0, ""))
            text = path.with_suffix(".svg").read_text()
            for said in ("4 steps, 2 states stored", "6 forward steps, 1.50 for each", "adjoint"):
                self.assertIn(said, text)
            path.write_text("{}")
            code, _, error = run("schedule", str(path))
            self.assertTrue(code == 1 and "plan.json" in error, error)


if __name__ == "__main__":
    unittest.main()
