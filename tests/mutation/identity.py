"""Ways to take one table, or one reachable set, for another."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

COPIES = "tests/unit/catalog/test_copies.py"
LISTS = "tests/unit/clone/test_shared_manifest_lists.py"
EXTERNAL_DROPS = "tests/unit/catalog/test_external_drops.py"
LETTING_GO = "tests/unit/drop/test_letting_go.py"
VETOES = "tests/unit/purge/test_purge_vetoes.py"
OLDER = "tests/unit/drop/test_older_metadata.py"
REPLACED = "tests/unit/purge/test_replaced_places.py"
ENTRIES = "tests/unit/catalog/test_entries.py"
RACES = "tests/unit/plan/test_races.py"
RECOGNISED = "tests/unit/catalog/test_recognised.py"

IDENTITY = (
    Mutation(
        "a table that nobody could hold is managed",
        "app/catalog/tables.py",
        "        and not context.catalogs[state.name.catalog].hindrance  # asked last: it may take a while\n",
        "",
        ("tests/unit/purge/test_what_cannot_be_held.py",),
    ),
    Mutation(
        "a copy is the registration whose UUID it has",
        "domain/iceberg/table_metadata.py",
        "        return table_uuid == self.table_uuid and any(location_key(path) == at for path in log)\n",
        "        return table_uuid == self.table_uuid\n",
        (COPIES, ENTRIES),
    ),
    Mutation(
        "two registrations may have one id",
        "app/catalog/registrations.py",
        "        while uuid in self.used:\n",
        "        while False:\n",
        (COPIES, ENTRIES),
    ),
    Mutation(
        "a second name takes over the entry of a table that stands",
        "app/catalog/registrations.py",
        "        free = [\n            row for row in rows if row.uuid not in self._claimed and self._has_left(row, present)\n        ]\n",
        "        free = list(rows)\n",
        (ENTRIES,),
    ),
    Mutation(
        "what cannot be read has left its name",
        "app/catalog/registrations.py",
        "        except MeltlineError:\n            return True\n",
        "        except MeltlineError:\n            return False\n",
        (ENTRIES,),
    ),
    Mutation(
        "a head of the last look proves the lineage by its id alone",
        "app/catalog/registrations.py",
        "    return None if snapshot is None else snapshot.files_key == place\n",
        "    return None if snapshot is None else True\n",
        (ENTRIES,),
    ),
    Mutation(
        "the last proof knows lists by the snapshots' ids",
        "app/purge/recheck.py",
        "            key = snapshot.as_written\n",
        "            key = (str(snapshot.snapshot_id),)\n",
        (RACES,),
    ),
    Mutation(
        "two manifest lists whose names differ by spelling are one",
        "domain/iceberg/table_metadata.py",
        "        return (self.manifest_list, *self.inline_manifests)\n",
        "        return (self.files_key,)\n",
        (LISTS,),
    ),
    Mutation(
        "a line break in the path of a list is a letter like any other",
        "domain/iceberg/metadata_parser.py",
        'if any("\\n" in path for path in',
        'if any(not path and "\\n" in path for path in',
        ("tests/unit/iceberg/test_table.py",),
    ),
    Mutation(
        "a manifest list whose bytes have changed is as good as the old one",
        "domain/iceberg/reachable.py",
        "        return self.sha256 != recorded.sha256\n",
        "        return False\n",
        (LISTS,),
    ),
    Mutation(
        "an incident of a manifest list is over with the next look",
        "app/observe/changed_lists.py",
        "    return not now.differs_from(recorded)\n",
        "    return True\n",
        (LISTS,),
    ),
    Mutation(
        "what cannot be read is whatever stood under its name",
        "app/catalog/management.py",
        "    place = location_key(pointer.metadata_location)\n",
        "    return True\n",
        ("tests/unit/catalog/test_vouching.py",),
    ),
    Mutation(
        "the gate's book goes by the hash of a manifest's path",
        "adapters/proofs/proof_reader.py",
        "    return (proof.path, proof.bytes) == (manifest.path, manifest.bytes)\n",
        "    return proof.bytes == manifest.bytes\n",
        ("tests/contract/index/test_proofs.py",),
    ),
    Mutation(
        "the index goes by the hash of a manifest's path",
        "adapters/ingest/ingest.py",
        "            if place != location_key(path):\n",
        "            if False:\n",
        ("tests/contract/index/test_file_ledger.py",),
    ),
    Mutation(
        "what a registration let go of stays where another goes on from it",
        "app/purge/plan_purge.py",
        "            owner = heir if heir in owners else departure.owner\n",
        "            owner = departure.owner\n",
        (OLDER,),
    ),
    Mutation(
        "two tables that are handed over in one night get one name in cold",
        "app/archive/cold_tables.py",
        "own in self.entries or self._given.get(own, uuid) != uuid",
        "own in self.entries",
        ("tests/unit/lives/test_kept_lives.py",),
    ),
    Mutation(
        "an incident is over where its table could not be looked at",
        "app/observe/changed_lists.py",
        "            return incident.table_uuid in looked_at\n",
        "            return True\n",
        (LISTS,),
    ),
    Mutation(
        "metadata of the same size in the place of other metadata is what was remembered",
        "app/catalog/metadata.py",
        "            if document and stored and stored.version == document.version:\n",
        "            if document and stored and stored.bytes == document.size:\n",
        (REPLACED, "tests/unit/catalog/test_remembered_metadata.py"),
    ),
    Mutation(
        "a name goes on with what has its head's list though it lies in another folder",
        "app/catalog/registrations.py",
        "    same = same and claim_prefix(state.location) == claim_prefix(row.location)\n",
        "",
        (LISTS,),
    ),
    Mutation(
        "a changed list that only a dropped clone names is not looked at again",
        "app/observe/observe.py",
        "still_changed(incidents, snapshots, context.store, states, ended",
        "still_changed(incidents, snapshots, context.store, readable, ended",
        (LISTS,),
    ),
    Mutation(
        "a table whose lists lie elsewhere now goes on from what its log names",
        "app/catalog/registrations.py",
        "    return leads and _has_newest(state, row) is not False\n",
        "    return leads\n",
        (REPLACED, RECOGNISED),
    ),
    Mutation(
        "known snapshots lie where they were read, whatever the metadata says",
        "app/observe/known_registrations.py",
        "        if (snapshot := tables[uuid].get(number)) and not snapshot.lies_at(place)\n",
        "        if (snapshot := tables[uuid].get(number)) and not snapshot.place\n",
        (RECOGNISED,),
    ),
    Mutation(
        "an id that only the file ledger knows is given to whom comes first",
        "app/catalog/registrations.py",
        "        return cls(context, rows, {row.uuid for row in known_rows}.union(filed or ()))\n",
        "        return cls(context, rows, {row.uuid for row in known_rows})\n",
        (RECOGNISED,),
    ),
    Mutation(
        "a table is a forgotten registration though its lists lie elsewhere",
        "app/observe/known_registrations.py",
        "if pair not in against}\n",
        "if pair}\n",
        (RECOGNISED, REPLACED),
    ),
    Mutation(
        "a clone is its source where the control ledger begins anew",
        "app/observe/known_registrations.py",
        "    return not log.isdisjoint(seen.get(uuid, ()))\n",
        "    return True\n",
        (RECOGNISED,),
    ),
    Mutation(
        "registrations that nobody knows are not named",
        "app/observe/known_registrations.py",
        "    new = [_incident(context.clock, uuid, counts[uuid]) for uuid in sorted(counts)]\n",
        "    new: list[Incident] = []\n",
        (RECOGNISED,),
    ),
    Mutation(
        "what a registration alone owned is nobody's once it has gone, though another's log names it",
        "app/observe/recording.py",
        "    ownerships |= {\n        Ownership(o.prefix, heir)\n        for o in registrations.ownerships()\n        for heir in before.get(o.table_uuid, ())\n    }\n",
        "    assert isinstance(before, dict)\n",
        (RECOGNISED,),
    ),
    Mutation(
        "a share goes on to show a table whose name a copy with its snapshot ids has taken",
        "app/clone/share_tables.py",
        "        return shows != self.source.state.uuid or head != self.source.snapshot_id\n",
        "        return head != self.source.snapshot_id\n",
        ("tests/unit/clone/test_share_updates.py",),
    ),
    Mutation(
        "an update of a share takes the tag from another registration that it shows now",
        "app/clone/shares.py",
        "        if source.uuid not in shown and tag_of(share.name) in source.refs:\n",
        "        if tag_of(share.name) in source.refs:\n",
        ("tests/unit/clone/test_share_updates.py",),
    ),
    Mutation(
        "a share that ends leaves its tag on other registrations of its source",
        "app/clone/share_tables.py",
        "                if origin.uuid in (state.uuid, state.table_uuid):\n",
        "                if origin.uuid == state.uuid:\n",
        ("tests/unit/clone/test_share_updates.py",),
    ),
    Mutation(
        "who goes on from two registrations is the one that was seen last",
        "app/catalog/registrations.py",
        "            return _place_in_log(state, row), row.name == state.name, row.observed_at\n",
        "            return 0, row.name == state.name, row.observed_at\n",
        ("tests/unit/catalog/test_entries.py",),
    ),
    Mutation(
        "what a registration named stays for ever though a table that was let go went on from it",
        "app/drop/finalize.py",
        "    return before | observation.let_go.keys() |",
        "    return observation.let_go.keys() |",
        ("tests/unit/lives/test_kept_lives.py",),
    ),
    Mutation(
        "a table that was set back and dropped is part of what was dropped before it",
        "app/drop/external_drops.py",
        "    return comes_of(state, row) and not was_over\n",
        "    return comes_of(state, row)\n",
        (OLDER,),
    ),
    Mutation(
        "a dropped table is kept in a state that it was set back from",
        "app/drop/external_drops.py",
        "    for at in _set_back_from(context.reader, files, last_seen):\n        del files[at]\n",
        "",
        (EXTERNAL_DROPS,),
    ),
    Mutation(
        "what lies with a table that left its catalog unnoticed is nobody's",
        "app/expire/plan_expiration.py",
        "    tables = (*observation.tables, *observation.left_behind)\n    managed = {t.state.uuid for t in tables if t.managed}",
        "    managed = {t.state.uuid for t in observation.tables if t.managed}",
        (EXTERNAL_DROPS,),
    ),
    Mutation(
        "a killed let go is finished though a table under a hold lies in the folder",
        "app/drop/finalize.py",
        "        if _lies_with_untouchable(observation, state):\n            continue\n",
        "",
        (LETTING_GO,),
    ),
    Mutation(
        "the audit does not say how many cancelled departures it leaves out",
        "app/safety/tombstones.py",
        "    left_out = len(lines) - _MOST_LINES\n",
        "    left_out = 0\n",
        (VETOES,),
    ),
)
