"""Ways to take one table, or one reachable set, for another."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

COPIES = "tests/unit/test_copies.py"
ENTRIES = "tests/unit/test_entries.py"
RACES = "tests/unit/test_races.py"
RECOGNISED = "tests/unit/test_recognised.py"

IDENTITY = (
    Mutation(
        "a copy is the registration whose UUID it has",
        "domain/table.py",
        "        return table_uuid == self.table_uuid and any(location_key(path) == at for path in log)\n",
        "        return table_uuid == self.table_uuid\n",
        (COPIES, ENTRIES),
    ),
    Mutation(
        "two registrations may have one id",
        "app/entries.py",
        "        while entry in self.used:\n",
        "        while False:\n",
        (COPIES, ENTRIES),
    ),
    Mutation(
        "a second name takes over the entry of a table that stands",
        "app/entries.py",
        "        free = [row for row in rows if row.uuid not in self._taken and self._left(row, present)]\n",
        "        free = list(rows)\n",
        (ENTRIES,),
    ),
    Mutation(
        "what cannot be read has left its name",
        "app/entries.py",
        "        except MeltlineError:\n            return True\n",
        "        except MeltlineError:\n            return False\n",
        (ENTRIES,),
    ),
    Mutation(
        "a head of the last look proves the lineage by its id alone",
        "app/entries.py",
        "    return None if snapshot is None else snapshot.files_key == place\n",
        "    return None if snapshot is None else True\n",
        (ENTRIES,),
    ),
    Mutation(
        "the last proof knows lists by the snapshots' ids",
        "app/reproof.py",
        "            key = snapshot.files_key\n",
        "            key = str(snapshot.snapshot_id)\n",
        (RACES, COPIES),
    ),
    Mutation(
        "a manifest list whose bytes have changed is as good as the old one",
        "domain/reachable.py",
        "        return bool(recorded.sha256) and self.sha256 != recorded.sha256\n",
        "        return False\n",
        (COPIES,),
    ),
    Mutation(
        "an incident of a manifest list is over with the next look",
        "app/changed_lists.py",
        "    return not now.differs_from(recorded)\n",
        "    return True\n",
        (COPIES,),
    ),
    Mutation(
        "what cannot be read is whatever stood under its name",
        "app/membership.py",
        "    place = location_key(entry.metadata_location)\n",
        "    return True\n",
        ("tests/unit/test_vouching.py",),
    ),
    Mutation(
        "the gate's book goes by the hash of a manifest's path",
        "adapters/spark/proofs.py",
        "    return (known.path, known.bytes) == (manifest.path, manifest.bytes)\n",
        "    return known.bytes == manifest.bytes\n",
        ("tests/contract/test_proofs.py",),
    ),
    Mutation(
        "the index goes by the hash of a manifest's path",
        "adapters/spark/ingest_rows.py",
        "            if place != location_key(path):\n",
        "            if False:\n",
        ("tests/contract/test_file_ledger.py",),
    ),
    Mutation(
        "what a registration let go of stays where another goes on from it",
        "app/plan_purge.py",
        "            owner = heir if heir in owners else departure.owner\n",
        "            owner = departure.owner\n",
        (COPIES,),
    ),
    Mutation(
        "two tables that are handed over in one night get one name in cold",
        "app/cold_tables.py",
        "own in self.entries or self._given.get(own, uuid) != uuid",
        "own in self.entries",
        ("tests/unit/test_kept_lives.py",),
    ),
    Mutation(
        "an incident is over where its table could not be looked at",
        "app/changed_lists.py",
        "key is None and incident.table_uuid in looked_at",
        "key is None",
        (COPIES,),
    ),
    Mutation(
        "metadata of the same size in the place of other metadata is what was remembered",
        "app/metadata.py",
        "            if document and there and there.version == document.version:\n",
        "            if document and there and there.bytes == document.size:\n",
        (COPIES, "tests/unit/test_remembered_metadata.py"),
    ),
    Mutation(
        "a name goes on with what has its head's list though it lies in another folder",
        "app/entries.py",
        "    same = same and claim_prefix(state.location) == claim_prefix(row.location)\n",
        "",
        (COPIES,),
    ),
    Mutation(
        "a changed list that only a dropped clone names is not looked at again",
        "app/observe.py",
        "still_changed(services, states, ended",
        "still_changed(services, readable, ended",
        (COPIES,),
    ),
    Mutation(
        "a table whose lists lie elsewhere now goes on from what its log names",
        "app/entries.py",
        "    return leads and _has_newest(state, row) is not False\n",
        "    return leads\n",
        (COPIES, RECOGNISED),
    ),
    Mutation(
        "known snapshots lie where they were read, whatever the metadata says",
        "app/recognised.py",
        "        if (snapshot := tables[uuid].get(number)) and not snapshot.lies_at(place)\n",
        "        if (snapshot := tables[uuid].get(number)) and not snapshot.place\n",
        (RECOGNISED,),
    ),
    Mutation(
        "an id that only the file ledger knows is given to whom comes first",
        "app/entries.py",
        "        return cls(ledgers, rows, {row.uuid for row in known}.union(filed or ()))\n",
        "        return cls(ledgers, rows, {row.uuid for row in known})\n",
        (RECOGNISED,),
    ),
    Mutation(
        "a table is a forgotten registration though its lists lie elsewhere",
        "app/recognised.py",
        "if pair not in against}\n",
        "if pair}\n",
        (RECOGNISED, COPIES),
    ),
    Mutation(
        "a clone is its source where the control ledger begins anew",
        "app/recognised.py",
        "    return not log.isdisjoint(seen.get(entry, ()))\n",
        "    return True\n",
        (RECOGNISED,),
    ),
    Mutation(
        "registrations that nobody knows are not named",
        "app/recognised.py",
        "    new = [_incident(services, entry, counts[entry]) for entry in sorted(counts)]\n",
        "    new: list[Incident] = []\n",
        (RECOGNISED,),
    ),
    Mutation(
        "what a registration alone owned is nobody's once it has gone, though another's log names it",
        "app/observe.py",
        "    found |= {Ownership(o.prefix, heir) for o in known for heir in before.get(o.table_uuid, ())}\n",
        "    assert isinstance(before, dict)\n",
        (RECOGNISED,),
    ),
    Mutation(
        "a share goes on to show a table whose name a copy with its snapshot ids has taken",
        "app/share_tables.py",
        "        return shows != self.source.state.uuid or _head(self.now.state) != self.source.snapshot_id\n",
        "        return _head(self.now.state) != self.source.snapshot_id\n",
        ("tests/unit/test_shares.py",),
    ),
    Mutation(
        "who goes on from two registrations is the one that was seen last",
        "app/entries.py",
        "            return _place_in_log(state, row), row.name == state.name, row.observed_at\n",
        "            return 0, row.name == state.name, row.observed_at\n",
        ("tests/unit/test_entries.py",),
    ),
    Mutation(
        "what a registration named stays for ever though a table that was let go went on from it",
        "app/letting_go.py",
        "    return before | observation.let_go.keys() |",
        "    return observation.let_go.keys() |",
        ("tests/unit/test_kept_lives.py",),
    ),
    Mutation(
        "a table that was set back and dropped is part of what was dropped before it",
        "app/noticed.py",
        "    return comes_of(state, row) and not was_over\n",
        "    return comes_of(state, row)\n",
        ("tests/unit/test_copies.py",),
    ),
)
