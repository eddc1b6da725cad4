"""The web page of a scheduler, and of the result of a simulation or a replay: one self-contained document.

It shows plain records (`summary`, `pods`, `nodes`, `profiles`), served over HTTP for a running scheduler (`routes`)
and embedded in a report.
"""
