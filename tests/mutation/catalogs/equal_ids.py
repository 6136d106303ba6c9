"""Two snapshots of one id of which one is passed over, or that stop more than their group."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

EQUAL_IDS = ("tests/unit/stopping/test_equal_ids.py",)
ALIASES = ("tests/unit/stopping/test_doubted_aliases.py",)
PARSER = ("tests/unit/iceberg/test_table.py",)

IDS = (
    Mutation(
        "equal ids: a table is not set aside",
        "app/observe/ingest.py",
        "    if reading.snapshot.snapshot_id in reading.state.namesakes:\n        return Verdict",
        "    if reading.snapshot.snapshot_id in ():\n        return Verdict",
        EQUAL_IDS,
    ),
    Mutation(
        "equal ids: the second list counts for nothing",
        "domain/iceberg/metadata_parser.py",
        "        snapshots[key] = replace(snapshot, snapshot_id=key) if key != id else snapshot\n",
        "        snapshots.setdefault(id, snapshot)\n",
        EQUAL_IDS,
    ),
    Mutation(
        "equal ids: of three snapshots one is lost",
        "domain/iceberg/metadata_parser.py",
        "            key = free = free - 1\n",
        "            key = free - 1\n",
        PARSER,
    ),
    Mutation(
        "equal ids: a table stops the whole lake, and a purge that is under way",
        "app/catalog/metadata.py",
        "            return load_document(store, pointer.name, at, with_namesakes=True)[0]\n",
        "            return load_document(store, pointer.name, at)[0]\n",
        EQUAL_IDS,
    ),
    Mutation(
        "equal ids: an observation reads none of the table",
        "app/catalog/metadata.py",
        "            state, raw = load_document(store, pointer.name, location, with_namesakes=True)\n",
        "            state, raw = load_document(store, pointer.name, location)\n",
        EQUAL_IDS,
    ),
    Mutation(
        "equal ids: a command takes the first of both",
        "app/catalog/registrations.py",
        "isinstance(state, TableMetadata) and state.namesakes else state",
        "isinstance(state, TableMetadata) and not state else state",
        EQUAL_IDS,
    ),
    Mutation(
        "equal ids: a trusted table is set aside no more",
        "app/observe/ingest.py",
        "    if reading.snapshot.snapshot_id in reading.state.namesakes:\n        return Verdict",
        "    if reading.state.namesakes and reading.state.uuid not in trusted:\n        return Verdict",
        EQUAL_IDS,
    ),
    Mutation(
        "equal ids: a dropped table counts as read completely",
        "app/observe/recording.py",
        "        is_unsure = bool(state.namesakes) or (",
        "        is_unsure = (",
        EQUAL_IDS,
    ),
    Mutation(
        "doubted: a planner passes over what such a snapshot names by another name",
        "app/observe/held_back.py",
        "                named_keys.update(doubted_keys(context.store, context.manifests, observation))\n",
        "                pass\n",
        ALIASES,
    ),
    Mutation(
        "doubted: a purge passes over what such a snapshot names by another name",
        "app/purge/recheck.py",
        "            named = self._named_by(aliases).keys() | doubted\n",
        "            named = set(self._named_by(aliases))\n",
        ALIASES,
    ),
)
