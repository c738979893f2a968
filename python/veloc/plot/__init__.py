"""Pictures of what veloc has measured, recorded and planned: `python -m veloc.plot --help`.

| module | does |
| --- | --- |
| `chart` | a page with its heading, and bars, stacks, lines and boxes on it |
| `results` | reads files of `veloc-bench`, and pools those of one device |
| `figures` | which pictures there are of results (HiPC'22, figures 3 to 6, and more) |
| `timeline` | the trace of a job (HiPC'22, figure 1) |
| `snapshot`, `pmem` | what `veloc-bench snapshot` and `veloc-bench pmem` have measured |
| `schedule` | the plan of an adjoint computation |

It needs matplotlib (`pip install veloc[plot]`), and neither libveloc-client nor a GPU.
"""
