"""The paper's tables and figures, and comparisons beyond them, as queues of commands that anybody can start by hand.

A cell is one row of a table from one seed: one `labeldp …` command in a directory of its own. Tables are written from whatever cells are
finished, and by nobody's hand.
"""
