"""Ways in which a move or an edit in Hive or Glue could lose a table or its newest file."""

from tests.mutation.mutation import Mutation

_MOVES = ("tests/unit/catalog/test_metastore_moves.py",)
_AT = "adapters/catalogs/metastores"

METASTORES = (
    Mutation(
        "metastores: a fence is known by the location of its table alone",
        f"{_AT}/moves.py",
        'return (standing.move == moving.move != "") or ',
        "return ",
        _MOVES,
    ),
    Mutation(
        "metastores: what could not be taken back is called taken",
        f"{_AT}/moves.py",
        "if standing is None or not self.metastore.replace(moving, taken_back(moving)):",
        "if not (standing is None or self.metastore.replace(moving, taken_back(moving)) or 1):",
        _MOVES,
    ),
    Mutation(
        "metastores: a fence is deleted by its name, whatever stands there",
        f"{_AT}/moves.py",
        "is_ours = standing is not None and standing.is_moving and standing.move == moving.move",
        "is_ours = standing is not None",
        _MOVES,
    ),
    Mutation(
        "metastores: a fence that has gone is called arrived",
        f"{_AT}/moves.py",
        "elif not _is_of(self.metastore.row(*to), moving):",
        "elif not moving:",
        _MOVES,
    ),
    Mutation(
        "metastores: who was denied deletes the file that stands",
        f"{_AT}/tables.py",
        "self._metastore.replace(row, parameters, after) or self._rows.is_done(",
        "self._metastore.replace(row, parameters, after) or (lambda *names: False)(",
        _MOVES,
    ),
    Mutation(
        "metastores: a denied rename deletes the file that stands",
        f"{_AT}/tables.py",
        "if done or (written and self._rows.is_done(move.source, move.target, new)):",
        "if done:",
        _MOVES,
    ),
    Mutation(
        "metastores: what is half way was not done",
        f"{_AT}/standing.py",
        "if not history or new in history:",
        "if not history:",
        _MOVES,
    ),
    Mutation(
        "metastores: what has gone was not done",
        f"{_AT}/standing.py",
        "if not history or new in history:",
        "if new in history:",
        _MOVES,
    ),
)
