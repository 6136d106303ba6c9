"""Ways in which a move or an edit in Hive or Glue could lose a table or its newest file."""

from tests.mutation.mutation import Mutation

_HIVE_ROWS = ("tests/unit/catalog/test_hive_rows.py",)
_GLUE = ("tests/unit/catalog/test_glue_rows.py",)
_MOVES = ("tests/unit/catalog/test_metastore_moves.py",)
_AT = "adapters/catalogs/metastores"

_OTHERS = ("tests/unit/catalog/test_other_rows.py",)

METASTORES = (
    Mutation(
        "metastores: tables of other formats own nothing",
        f"{_AT}/tables.py",
        "            if not (row.is_table or row.is_storage)\n",
        "            if row.is_view\n",
        _OTHERS,
    ),
    Mutation(
        "metastores: the hidden table of a materialized view is not looked at",
        f"{_AT}/tables.py",
        "for row in rows if row.is_table or row.is_storage]",
        "for row in rows if row.is_table]",
        _OTHERS,
    ),
    Mutation(
        "metastores: the hidden table of a materialized view is expired",
        "app/catalog/tables.py",
        "        and state.name not in listing.hidden\n",
        "",
        ("tests/unit/safety/test_hidden_tables.py",),
    ),
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
        f"{_AT}/tables.py",
        "if not history or new in history:",
        "if not history:",
        _MOVES,
    ),
    Mutation(
        "metastores: what has gone was not done",
        f"{_AT}/tables.py",
        "if not history or new in history:",
        "if new in history:",
        _MOVES,
    ),
    Mutation(
        "metastores: who has lost a property of a namespace says it is set",
        f"{_AT}/tables.py",
        "return True if is_kept else None",
        "return True",
        _MOVES,
    ),
    Mutation(
        "metastores: two rows of one name are listed as one",
        f"{_AT}/tables.py",
        "        self._require_different(str(entry.name) for entry in entries)\n",
        "",
        _MOVES,
    ),
    Mutation(
        "metastores: two databases of one name are listed as one",
        f"{_AT}/tables.py",
        'self._require_different(".".join(levels_of(database)) for database in namespaces)',
        "pass",
        _MOVES,
    ),
    Mutation(
        "metastores: a table is found by a name that is folded",
        f"{_AT}/tables.py",
        "return row if row is not None and (row.database, row.table) == place else None",
        "return row",
        _MOVES,
    ),
    Mutation(
        "metastores: a path that looks like a fence is cut",
        f"{_AT}/rows.py",
        '"^meltline-moving:',
        '"meltline-moving:',
        _MOVES,
    ),
    Mutation(
        "metastores: a table renamed while Hive is listed is missed",
        f"{_AT}/hive.py",
        "            return None if missing else rows\n",
        "            return rows\n",
        _HIVE_ROWS,
    ),
    Mutation(
        "metastores: Glue's version alone tells a table",
        f"{_AT}/glue.py",
        "if not _is_same(self.row(row.database, row.table), row):",
        "if False:",
        _GLUE,
    ),
    Mutation(
        "metastores: when Glue made a table is not looked at",
        f"{_AT}/glue.py",
        'fields = ("VersionId", "CreateTime")',
        'fields = ("VersionId",)',
        _GLUE,
    ),
)
