"""Terms that were given up, each with the one that replaces it.

A term matches whole parts of an identifier: `let_go` matches `let_go_now` and `LetGo`. A word that
also has a meaning of its own is here only in the compounds in which it was given up.
"""

_FAMILIES = {
    "status": "standing stands",
    "orphan candidate": "stray strays",
    "observation": "sighting sightings",
    "compact, or resolve": "settle settles settled settling",
    "finalize": "let_go lets_go letting_go",
    "storage usage, or measure": "weigh weighs weighed weighing",
    "revert, or veto": "take_back takes_back taken_back taking_back wanted_back",
    "retained snapshots": "keep_set keep_sets",
    "retry, or refresh": "anew afresh",
    "message, or reported": "told",
    "evaluate": "judge judges judged judging",
    "scan, or snapshot": "look looks",
    "cache": "book books",
    "lifetime": "span spans",
    "prefix": "front fronts",
    "indexed head": "tip tips",
    "linear history": "main_line on_line on_lines off_line left_the_line",
    "result": "file_done manifest_done drop_done retention_done is_done until_done",
    "compared with": "held_against",
    "limit": "so_many",
    "none": "nobody somebody whoever",
}

GIVEN_UP = {term: say for say, terms in _FAMILIES.items() for term in terms.split()}
