"""The web page of a scheduler, and of the result of a simulation or a replay: one document, without anything outside.

What it shows are plain records (`summary`, `pods`, `nodes`, `profiles`), answered over HTTP for a scheduler that runs
(`routes`) and embedded in a report.
"""
