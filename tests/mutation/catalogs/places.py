"""Ways in which another name of a file could be overlooked, or what lies outside the roots go."""

from tests.mutation.mutation import Mutation

NAMES = ("tests/unit/safety/test_two_names.py",)
FALSE_ANSWERS = ("tests/unit/install/test_false_answers.py",)
DISK = ("tests/unit/safety/test_two_names_on_disk.py",)

PLACES = (
    Mutation(
        "places: a plan does not ask for other names", "app/purge/plan_purge.py",
        "_without(by_owner, outside.keys() | needed.keys())",
        "_without(by_owner, outside.keys())", NAMES,
    ),
    Mutation(
        "places: the gate does not ask for other names", "app/gate/cases.py",
        "for p in paths if p in elsewhere]", "for p in paths if not p]", NAMES,
    ),
    Mutation(
        "places: the last proof does not ask for other names", "app/purge/recheck.py",
        "        return needed | elsewhere\n", "        return set(needed)\n", NAMES,
    ),
    Mutation(
        "places: the last proof does not note where new commits refer to", "app/purge/recheck.py",
        "        self._places |= places_in(", "        places_in(", NAMES,
    ),
    Mutation(
        "places: links to single files are passed over", "domain/path_aliases.py",
        "            places.update(links_among(in_folder))\n", "            pass\n",
        (*NAMES, *DISK),
    ),
    Mutation(
        "places: a dropped table outside the roots is let go before its files can depart",
        "app/drop/finalize.py",
        "        if table.state.uuid not in to_depart\n        and not any(",
        "        if not any(", NAMES,
    ),
    Mutation(
        "places: a link in a linked folder is none", "tests/doubles/store.py",
        "return self._by_its_folder(path) in self.links", "return path in self.links", NAMES,
    ),
    Mutation(
        "places: links to single files are not followed", "app/ownership/path_aliases.py",
        "*self._links.get((at, name), ())", "", (*NAMES, *DISK),
    ),
    Mutation(
        "places: folders are one only where their names are", "app/ownership/path_aliases.py",
        "self._identities[folder] = self._resolver.identity(folder)",
        "self._identities[folder] = folder", (*NAMES, *DISK),
    ),
    Mutation(
        "places: a ledger from before has none", "app/observe/observe.py",
        "if indexed and not context.control.places.all():", "if not indexed:", NAMES,
    ),
    Mutation(
        "places: the same key in another store is another file", "app/ownership/path_aliases.py",
        "aliases = [name for store in beside for name in names_in(store, path)]", "aliases = []",
        NAMES,
    ),
    Mutation(
        "places: stores that are called different are asked all the same",
        "app/ownership/path_aliases.py",
        "if not self._names.are_different(place, store)", "if place", NAMES,
    ),
    Mutation(
        "places: stores that are called the same are two", "app/ownership/path_aliases.py",
        "self._names.are_same(store_of(path), store_of(alias))", "not path", NAMES,
    ),
    Mutation(
        "places: sizes are not compared", "app/ownership/path_aliases.py",
        "None not in (size, alias_size) and size != alias_size",
        "None in (size, alias_size) and size == alias_size", NAMES,
    ),
    Mutation(
        "places: wasb and abfs are two", "domain/iceberg/locations.py",
        '    "wasbs": "abfss",\n', "", ("tests/unit/iceberg/test_locations.py", *NAMES),
    ),
    Mutation(
        "places: behind an address of the web no bucket is looked for", "domain/path_aliases.py",
        "if is_address else []", "if not store else []", NAMES,
    ),
    Mutation(
        "places: an address of a cloud is a store of its own", "domain/iceberg/locations.py",
        'if scheme in ("http", "https"):', "if not scheme:",
        ("tests/unit/iceberg/test_store_names.py", *NAMES),
    ),
    Mutation(
        "places: a bucket behind one slash is none", "domain/iceberg/locations.py",
        "        authority, raw = _with_bucket(authority, raw)\n", "        pass\n",
        ("tests/unit/iceberg/test_store_names.py", *NAMES),
    ),
    Mutation(
        "roots: an expiration takes what lies outside", "app/expire/plan_expiration.py",
        "if not any(file.path in outside for file in planned)", "if planned", NAMES,
    ),
    Mutation(
        "roots: the gate lets a plan pass for what lies outside", "app/gate/cases.py",
        '[p for p, why in refused.items() if why is not Why.HALF_SEEN]', "()", NAMES,
    ),
    Mutation(
        "roots: the deleter does not ask", "adapters/object_store/deleter.py",
        "for p, why in refused.items()}", "for p, why in refused.items() if not p}", NAMES,
    ),
    Mutation(
        "places: what Spark's own reader decodes is not noted", "adapters/ingest/bulk_rows.py",
        "        for first in list(outcomes)[:1]:\n", "        for first in ():\n",
        ("tests/contract/index/test_reading_manifests.py",),
    ),
    Mutation(
        "places: what removed files lay in is noted", "adapters/ingest/bulk_rows.py",
        'kept = rows.filter(pc.field("status") != _DELETED).column("path")',
        'kept = rows.column("path")', ("tests/contract/index/test_reading_manifests.py",),
    ),
    Mutation(
        "places: what a listing has not shown is no link", "adapters/object_store/local.py",
        "        yield from filter(self.is_link, unseen.values())\n", "        return\n", DISK,
    ),
    Mutation(
        "places: a listing tells of no links", "adapters/object_store/local.py",
        "                        if is_link:\n", "                        if not is_link:\n", DISK,
    ),
    Mutation(
        "roots: names are not resolved", "app/ownership/confinement.py",
        "return Why.LINK if folder.leads_out else None", "return None", (*NAMES, *DISK),
    ),
    Mutation(
        "roots: an object without a folder is taken for another",
        "adapters/object_store/cloud_objects.py",
        "folders[folder] = batch, key.removesuffix(name)", "folders[folder] = batch, key",
        ("tests/contract/object_store/test_object_stats.py",),
    ),
    Mutation(
        "roots: a link itself is deleted", "adapters/object_store/deleter.py",
        "    if stat.is_link:\n", "    if not stat.path:\n", (*NAMES, *DISK),
    ),
    Mutation(
        "roots: a look at a file does not see that it is a link", "adapters/object_store/local.py",
        "is_link=stat.S_ISLNK(status.st_mode)", "is_link=False", DISK,
    ),
    Mutation(
        "roots: an observed catalog's warehouse is one", "config/load.py",
        "[catalog.warehouse for catalog in ours if not catalog.observe_only]",
        "[catalog.warehouse for catalog in self.catalogs.values()]", NAMES,
    ),
    Mutation(
        "places: init does not look at what Spark has made", "app/doctor/init.py",
        "    require_made(context, listing, tables)\n", "", FALSE_ANSWERS,
    ),
    Mutation(
        "places: a catalog that keeps no properties is adopted", "app/safety/epochs.py",
        "    _require_kept(context, generation)\n", "", FALSE_ANSWERS,
    ),
    Mutation(
        "places: a ledger has its generation before the catalog is seen to have it",
        "app/safety/epochs.py", "    _require_kept(context, generation)\n",
        "    context.control.database.set_generation(generation)\n"
        "    _require_kept(context, generation)\n", FALSE_ANSWERS,
    ),
)  # fmt: skip
