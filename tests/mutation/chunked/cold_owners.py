"""Ways in which a table in cold could be taken for another installation's, or for ours."""

from tests.mutation.mutation import Mutation

_TESTS = ("tests/unit/archive/test_cold_owners.py",)
_SQL = ("tests/unit/archive/test_archive_writes.py",)

COLD_OWNERS = (
    Mutation(
        "cold: whoever has made its mark, a synced table is ours",
        "app/chunks/replication/synced_table.py",
        "    ColdOwner.of(context).require(synced.state)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "cold: whoever has made its mark, an archive is ours",
        "app/archive/cold_tables.py",
        "        self.owner.require(state)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "cold: a copy that was adopted is the installation that it was copied from",
        "domain/archive/cold_owner.py",
        "        begun = max(adopted, key=_number, default=first)\n",
        "        begun = first\n",
        _TESTS,
    ),
    Mutation(
        "cold: a copy with the ledger of its original has made the marks of both",
        "domain/archive/cold_owner.py",
        "        return mark.id == self.id and is_known\n",
        "        return mark.id == self.id\n",
        _TESTS,
    ),
    Mutation(
        "cold: a sync is declared to a table that another installation writes",
        "app/chunks/replication/declare.py",
        "        read_synced(context, hot, before if before and goes_on else first)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "cold: all rows of a table are read from another installation's cold",
        "app/chunks/reading/complete_rows.py",
        "    require_own(context, synced)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "cold: a proof counts on rows that another installation writes",
        "app/chunks/proofs.py",
        "        require_own(context, table)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "cold: a table without a mark is ours",
        "app/safety/cold_owner.py",
        "        if not self.owns(state):\n",
        "        if mark_of(state).stated and not self.owns(state):\n",
        _TESTS,
    ),
    Mutation(
        "cold: a commit of replication leaves the mark of a past epoch",
        "app/chunks/replication/large_deletes.py",
        "            **ColdOwner.of(cold.context).properties,\n",
        "",
        _TESTS,
    ),
    Mutation(
        "cold: a drop leaves the mark as it was before the run began",
        "app/chunks/drop.py",
        "        marks = ColdOwner.of(context).properties\n",
        "        marks = dict[str, str]()\n",
        _TESTS,
    ),
    Mutation(
        "cold: a ledger without a past remembers what another installation has archived",
        "app/archive/cold_status.py",
        "        if isinstance(state, TableMetadata) and tables.owner.owns(state):\n",
        "        if isinstance(state, TableMetadata):\n",
        _TESTS,
    ),
    Mutation(
        "cold: another id than the one that a person has typed is taken over",
        "app/archive/cold_adoption.py",
        "    if installation not in foreign:\n",
        "    if not foreign:\n",
        _TESTS,
    ),
    Mutation(
        "cold: an archive is written that another installation has begun meanwhile",
        "domain/archive/cold_owner.py",
        "    if mark.stated and own.stated and mark.id != own.id:\n",
        "    if False and mark.stated:\n",
        _TESTS,
    ),
    Mutation(
        "cold: SQL changes rows of the archive",
        "app/sql/statements.py",
        "        yield from (write.target for write in writes_of(text))\n        return\n",
        "        return\n",
        _SQL,
    ),
    Mutation(
        "cold: SQL calls procedures of the archive",
        "app/sql/statements.py",
        "    yield from (name for start, name in names_in(text) if start not in read)\n",
        "",
        _SQL,
    ),
    Mutation(
        "cold: SQL names the archive in a text",
        "app/sql/statements.py",
        '        if said.replace("`", "").startswith(starts):\n            raise _refusal(said)\n',
        "        pass\n",
        _SQL,
    ),
    Mutation(
        "cold: SQL executes a statement in quotes that changes the archive",
        "app/sql/statements.py",
        "        require_archive_unchanged(context, standing, executed, first)\n",
        "        pass\n",
        _SQL,
    ),
    Mutation(
        "cold: SQL lets Spark work out the name of what a statement changes",
        "app/sql/statements.py",
        "    if is_worked_out(text):\n",
        "    if False:\n",
        _SQL,
    ),
    Mutation(
        "cold: SQL that stands in the archive changes it",
        "app/sql/statements.py",
        "        if cold in (name[0], container_name(context, standing, name).catalog):\n",
        "        if cold == name[0]:\n",
        _SQL,
    ),
    Mutation(
        "cold: a statement that would change the archive reaches Spark",
        "app/sql/statements.py",
        "    require_archive_unchanged(context, request.standing, query.text, query.kind)\n",
        "",
        _SQL,
    ),
)
