"""Ways in which the index, its proofs and the history of a table could lose a file."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

PROOFS = "tests/contract/index/test_proofs.py"
SETTLING = "tests/contract/index/test_settling.py"
PROOF_HASHES = "tests/unit/manifests/test_proof_hashes.py"
EVIDENCE = "tests/unit/manifests/test_evidence_reader.py"
LINES = "tests/unit/iceberg/test_lines.py"
CHANGES = "tests/unit/manifests/test_reading_changes.py"
ON_SPARK = "tests/spark/lives/test_lines.py"
TABLE = "tests/unit/iceberg/test_table.py"
PRINTS = "tests/unit/index/test_hash_prints.py"
SCAN = "tests/contract/index/test_ledger_scan.py::test_hashes_are_found_among_many_before_and_after_spark_wrote_the_files_anew"
ALL_HERE = "tests/contract/index/test_ledger_scan.py::test_departures_are_all_read_here_however_many_they_are"
GROUPS = "tests/unit/plan/test_groups.py"
FILE_LEDGER = "tests/contract/index/test_file_ledger.py"

TABLE_NOW = "tests/unit/index/test_table_now.py"
READER = "tests/contract/index/test_ledger_reader.py::test_rows_of_one_path_are_chosen_by_every_condition"

SNAPSHOTS = "tests/unit/index/test_snapshot_cache.py"

INDEX = (
    Mutation(
        "index: a snapshot of which nothing is said is in neither set and keeps no file",
        "adapters/index_tables/snapshot_cache.py",
        'pc.fill_null(self.rows.column("by_changes"), fill_value=False)',
        'self.rows.column("by_changes")', (SNAPSHOTS,),
    ),
    Mutation(
        "index: a snapshot of unknown age is newer than all that leave",
        "adapters/index_tables/snapshot_cache.py",
        'pc.fill_null(self.rows.column("sequence_number"), 0)',
        'self.rows.column("sequence_number")', (SNAPSHOTS,),
    ),
    Mutation(
        "a table of the ledger that does not tell its snapshot is empty",
        "adapters/index_tables/table_now.py",
        "in (None, _NO_SNAPSHOT) and not document.get(\"snapshots\"):", "in (None, _NO_SNAPSHOT):",
        (TABLE_NOW,),
    ),
    Mutation(
        "of two snapshots with one number either is the ledger's", "adapters/index_tables/table_now.py",
        "    if len(chosen) != 1:\n", "    if not chosen:\n", (TABLE_NOW,),
    ),
    Mutation(
        "a departed file is not asked for by its path", "adapters/file_index/index_reader.py",
        "        if kinds is not None and paths:\n",
        "        if not kinds and paths:\n", (READER,),
    ),
    Mutation(
        "PyIceberg asks for rows by the first condition alone", "adapters/file_index/pyiceberg_scan.py",
        "        where = And(where, _expression(condition))\n",
        "        where = where if where != AlwaysTrue() else _expression(condition)\n", (READER,),
    ),
    Mutation(
        "what a step of a line added goes when the step is set aside",
        "adapters/file_index/entries.py",
        "pa.concat_tables([standing.select(steps), settled])", "standing.select(steps)",
        (SETTLING,),
    ),
    Mutation(
        "a departure is set aside while its snapshot is still known",
        "adapters/file_index/history_tables.py",
        '        self._move("snapshots", _keys(lists), hash_column="list_hash")\n', "", (SETTLING,),
    ),
    Mutation(
        "more departures than Spark hands over are asked of it", "adapters/index_tables/tombstone_rows.py",
        'self._tables.look("departures", COLUMNS, of_any_size=True)',
        'self._tables.look("departures", COLUMNS)', (ALL_HERE,),
    ),
    Mutation(
        "files are too large for who takes them whole", "adapters/index_tables/parquet_scan.py",
        "> self.largest and not of_any_size:", "> self.largest:",
        ("tests/unit/index/test_ledger_files.py",),
    ),
    Mutation(
        "the row of a departure that was written first tells of it", "adapters/index_tables/rows.py",
        "    is_newest[:-1] = sorted_keys[1:] != sorted_keys[:-1]\n",
        "    is_newest[1:] = sorted_keys[1:] != sorted_keys[:-1]\n",
        ("tests/unit/index/test_many_departures.py",),
    ),
    Mutation(
        "files are weighed as what departed from another owner", "adapters/file_index/storage_usage.py",
        "            self._owned[self._departed_from[row[\"owner\"]], stage]",
        "            self._owned[self._departed_from[0], stage]",
        ("tests/unit/index/test_many_departures.py",),
    ),
    Mutation(
        "files of a plan under way are set aside", "adapters/index_tables/tombstone_rows.py",
        "pc.and_(pc.and_(early, deleted), finished)", "pc.and_(early, deleted)", (SETTLING,),
    ),
    Mutation(
        "what departed again meanwhile is taken away", "adapters/file_index/history_tables.py",
        "_keys(_without(over.hashes, tips)), until=newest)", "_keys(_without(over.hashes, tips)))",
        (SETTLING,),
    ),
    Mutation(
        "what another process moves is moved with it", "adapters/file_index/history_tables.py",
        'WHERE going.move = :move"', 'WHERE :move IS NOT NULL"', (SETTLING,),
    ),
    Mutation(
        "a file that the oldest snapshot refers to is set aside", "adapters/file_index/history_tables.py",
        'pc.less_equal(spans.column("until"), first)', 'pc.less_equal(spans.column("until"), pc.add(first, 1))',
        (SETTLING,),
    ),
    Mutation(
        "a removal that was never recorded sets a file aside", "adapters/file_index/history_tables.py",
        'self._snapshots.spans(of_removed(REACH))', 'of_removed(REACH)',
        (SETTLING,),
    ),
    Mutation(
        "one vector of a file is set aside with another", "adapters/file_index/history_tables.py",
        '("table_uuid", "key_hash", "part", "since")', '("table_uuid", "key_hash", "since")',
        (SETTLING,),
    ),
    Mutation(
        "what came back is set aside with what had gone", "adapters/file_index/history_tables.py",
        '("table_uuid", "key_hash", "part", "since")', '("table_uuid", "key_hash", "part")',
        (SETTLING,),
    ),
    Mutation(
        "damaged hashes of a proof are believed", "adapters/proofs/hash_sets.py",
        'rows.filter(pc.equal(rows["fingerprint"], pa.array(prints)))', "rows", (PROOF_HASHES,),
    ),
    Mutation(
        "a proof with fewer hashes than files is believed", "adapters/proofs/hash_sets.py",
        'rows.filter(pc.equal(lengths, pc.multiply(rows["live_files"], _WIDTH)))',
        "rows.filter(pc.is_valid(lengths))", (PROOF_HASHES,),
    ),
    Mutation(
        "what a gate read before is not asked for planned files", "adapters/proofs/proof_reader.py",
        "hits=sound[numbers[path]]", "hits=()",
        (f"{PROOFS}::test_a_planned_file_is_found_though_the_index_knows_nothing",),
    ),
    Mutation(
        "a manifest of another length counts as read", "adapters/proofs/proof_reader.py",
        "    return (proof.path, proof.bytes) == (manifest.path, manifest.bytes)\n",
        "    return proof.path == manifest.path\n",
        (f"{PROOFS}::test_a_manifest_of_another_length_than_its_list_says_is_read",),
    ),
    Mutation(
        "two readings of one file may disagree", "adapters/proofs/proof_cache.py",
        "            if not agrees:\n", "            if False:\n",
        (f"{PROOFS}::test_a_full_proof_finds_a_manifest_replaced_by_one_of_the_same_length",),
    ),
    Mutation(
        "a block of a manifest may end before its entries do", "adapters/manifests/pyiceberg_blocks.py",
        "            if decoder.tell() != end:\n", "            if False:\n", (EVIDENCE,),
    ),
    Mutation(
        "blocks read together are only looked at together", "adapters/manifests/pyiceberg_blocks.py",
        "            if decoder.tell() != end:\n", "            if end == len(content) != decoder.tell():\n", (EVIDENCE,),
    ),
    Mutation(
        "only the last blocks that are read together are read", "adapters/manifests/pyiceberg_blocks.py",
        "            yield together\n            together, length = [], 0\n", "            together, length = [], 0\n", (EVIDENCE,),
    ),
    Mutation(
        "the gate takes removed files for alive", "adapters/manifests/pyiceberg_reader.py",
        "            if status != _DELETED:\n", "            if True:\n", (EVIDENCE,),
    ),
    Mutation(
        "a line goes on though its counts do not add up", "domain/iceberg/linear_history.py",
        "    return all(\n        _live(after", "    return True or all(\n        _live(after", (LINES,),
    ),
    Mutation(
        "a line goes on over manifests that others wrote", "domain/iceberg/linear_history.py",
        "    if not own or child", "    if child", (LINES,),
    ),
    Mutation(
        "a line begins with files that nobody has counted", "domain/iceberg/linear_history.py",
        "if first is None or not all(_is_counted(manifest) for manifest in first):",
        "if first is None:", (LINES,),
    ),
    Mutation(
        "changes that could not be read count as read", "app/observe/ingest.py",
        "changed | wholly | failed", "changed | wholly", (CHANGES,),
    ),
    Mutation(
        "what a run that died left behind counts", "adapters/index_tables/lifetimes.py",
        "changes.filter(_are_recorded(changes, recorded))", "changes", (LINES,),
    ),
    Mutation(
        "a file goes with the first of its deletion vectors", "adapters/index_tables/lifetimes.py",
        '_SPAN = ("table_uuid", "key_hash", "part", "since")',
        '_SPAN = ("table_uuid", "key_hash", "since")', (LINES,),
    ),
    Mutation(
        "a file is still there in the snapshot that removes it", "adapters/index_tables/lifetimes.py",
        'ends = pc.coalesce(spans["until"], _NUMBERS - 1)',
        'ends = pc.add(pc.coalesce(spans["until"], _NUMBERS - 2), 1)', (LINES,),
    ),
    Mutation(
        "another table's snapshots keep and free files", "adapters/index_tables/lifetimes.py",
        "pc.add(pc.multiply(codes, _NUMBERS), numbers)", "numbers", (LINES,),
    ),
    Mutation(
        "what stays on a line keeps nothing", "adapters/file_index/file_index.py",
        "        referenced = self._on_lines(hashes, split.staying, floor)\n", "        referenced = set[int]()\n", (ON_SPARK,),
    ),
    Mutation(
        "what is known by changes is not asked what it refers to", "adapters/file_index/file_index.py",
        "        referenced = self._on_lines(list(by_hash), standing)\n", "        referenced = set[int]()\n", (ON_SPARK,),
    ),
    Mutation(
        "whatever stands for a table's UUID is taken for one", "domain/iceberg/metadata_parser.py",
        "    if not _UUID.fullmatch(uuid):\n", "    if not uuid:\n", (TABLE,),
    ),
    Mutation(
        "what stands for tables is pasted into a statement", "adapters/file_index/history_tables.py",
        'where = "WHERE array_contains(:uuids, table_uuid)"',
        "where = \"WHERE table_uuid IN ('\" + \"', '\".join(readable) + \"') OR :uuids IS NULL\"",
        (FILE_LEDGER,),
    ),
    Mutation(
        "first bits of hashes are searched one place too far", "adapters/index_tables/hash_prints.py",
        "np.searchsorted(prints, sought)", 'np.searchsorted(prints, sought, "right")', (PRINTS,),
    ),
    Mutation(
        "first bits of hashes are kept in no order", "adapters/index_tables/hash_prints.py",
        "[np.sort(hashes[start : start + group_rows] >> _CUT) for start in starts]",
        "[hashes[start : start + group_rows] >> _CUT for start in starts]", (PRINTS,),
    ),
    Mutation(
        "first bits of another file's hashes are believed", "adapters/index_tables/hash_prints.py",
        "    return bool(len(prints)) and ends == (prints[0], prints[-1])\n",
        "    return bool(len(prints)) and ends is not None\n", (PRINTS,),
    ),
    Mutation(
        "damaged first bits of hashes are believed", "adapters/index_tables/hash_prints.py",
        "if len(stored) <= _CHECK or stored[:_CHECK] != _checksum(content):",
        "if len(stored) <= _CHECK:", (PRINTS,),
    ),
    Mutation(
        "first bits of fewer row groups are believed", "adapters/index_tables/hash_prints.py",
        "    if len(prints) != metadata.num_row_groups:\n", "    if not prints:\n", (PRINTS,),
    ),
    Mutation(
        "first bits of more rows than there are, or fewer, are believed",
        "adapters/index_tables/hash_prints.py",
        "or not statistics.has_min_max or len(prints) != group.num_rows:",
        "or not statistics.has_min_max:", (PRINTS,),
    ),
    Mutation(
        "numbers of manifests are looked for among first bits of hashes",
        "adapters/index_tables/parquet_scan.py",
        "    if question.among is None or question.among[0] != hash_prints.COLUMN:\n",
        "    if question.among is None:\n", (SCAN,),
    ),
    Mutation(
        "a part of a file that ends early is taken for all of it", "adapters/index_tables/file_parts.py",
        "        if len(content) != length:\n", "        if len(content) > length:\n",
        ("tests/unit/index/test_ledger_files.py",),
    ),
    Mutation(
        "a group that joins a larger one is left where it was", "domain/deletion/sharing_groups.py",
        "                joined.update(dict.fromkeys(fewer, more))\n", "", (GROUPS,),
    ),
    Mutation(
        "a hold that came since the last look does not stop a purge", "app/purge/recheck.py",
        "self._listings, self._held = self._inputs.tables.listings(), {}",
        "self._listings = self._inputs.tables.listings()",
        ("tests/unit/retention/test_holds.py", "tests/unit/plan/test_guards.py"),
    ),
    Mutation(
        "a hold on one of a group stops no purge of the others", "app/gate/evidence.py",
        "if not around.held.isdisjoint(around.groups.members(owner))", "if owner in around.held",
        ("tests/unit/retention/test_holds.py", "tests/unit/plan/test_guards.py"),
    ),
    Mutation(
        "compaction writes the whole index anew each time", "adapters/file_index/history_tables.py",
        "f\"'min-file-size-bytes', '{self.compact_below}'))\"", "f\"'min-file-size-bytes', '{1 << 28}'))\"",
        ("tests/contract/index/test_ledger_scan.py",),
    ),
    Mutation(
        "a plan's growth is measured against plans of another kind", "adapters/sql_ledger/parts/plans.py",
        "c.kind == plan.kind, ", "", ("tests/contract/ledger/test_control_ledger_plans.py",),
    ),
)  # fmt: skip
