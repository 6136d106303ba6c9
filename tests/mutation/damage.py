"""Ways in which a damaged file could end a run, or be read as if it were sound."""

from tests.mutation.mutation import Mutation

EVIDENCE = "tests/unit/manifests/test_evidence_reader.py"
FILES = "tests/unit/manifests/test_damaged_files.py"
STORES = "tests/contract/object_store/test_local_files.py"

BULK = "tests/contract/index/test_bulk_manifests.py"

DATUMS = "tests/unit/manifests/test_avro_datums.py"

LEDGER_FILES = "tests/unit/index/test_ledger_files.py"

DAMAGE = (
    Mutation(
        "a mistake in reading the ledger's files is a question to Spark",
        "adapters/index_tables/file_parts.py",
        "    except (FileNotFoundError, StoreRefused) as refused:",
        "    except Exception as refused:",
        (LEDGER_FILES,),
    ),
    Mutation(
        "a file of the ledger that Arrow cannot read ends the step",
        "adapters/index_tables/parquet_scan.py",
        "    except (pa.ArrowException, OSError, UnicodeDecodeError) as damaged:",
        "    except UnicodeDecodeError as damaged:",
        (LEDGER_FILES,),
    ),
    Mutation(
        "a block becomes as large as its bytes ask for",
        "adapters/manifests/avro_codecs.py",
        "stream.decompress(packed, LARGEST_BLOCK)",
        "stream.decompress(packed, 1 << 40)",
        (DATUMS,),
    ),
    Mutation(
        "noise in a block is told in the words of whoever unpacks it",
        "adapters/manifests/avro_codecs.py",
        "    except (OSError, EOFError, zlib.error, lzma.LZMAError) as damaged:",
        "    except EOFError as damaged:",
        (DATUMS,),
    ),
    Mutation(
        "records without fields are read for ever",
        "adapters/manifests/avro_container.py",
        "            if block.records > len(content):",
        "            if not content:",
        (DATUMS,),
    ),
    Mutation(
        "Spark's decoder takes any number for a status",
        "adapters/manifests/spark_decoder.py",
        '    f" AND status IN ({',
        '    f" AND status IN (18, {',
        (BULK,),
    ),
    Mutation(
        "the index takes whatever stands in a field of its name",
        "adapters/manifests/fastavro_reader.py",
        '        if (kind := _kind_of(field["type"])) not in kinds[field["name"]]:\n',
        '        if (kind := _kind_of(field["type"])) == "":\n',
        (FILES,),
    ),
    Mutation(
        "the gate believes how long a text of noise is",
        "adapters/manifests/pyiceberg_blocks.py",
        "        if not 0 <= length <= end - tell():\n",
        "        if length < 0:\n",
        (EVIDENCE,),
    ),
    Mutation(
        "the gate takes whatever stands in a field of its number",
        "adapters/manifests/pyiceberg_blocks.py",
        "        if not isinstance(inner, StringReader if self.is_text else IntegerReader):\n",
        "        if inner is None:\n",
        (EVIDENCE,),
    ),
    Mutation(
        "half a letter is a letter",
        "domain/iceberg/metadata_editor.py",
        "        if _SURROGATE.search(text):",
        "        if not text and _SURROGATE.search(text):",
        (FILES,),
    ),
    Mutation(
        "an error repeats all of what was found",
        "domain/errors.py",
        "        self.found = _shortened(discreet(found))\n",
        "        self.found = discreet(found)\n",
        (FILES,),
    ),
    Mutation(
        "every bucket has a name that can be asked for",
        "adapters/object_store/cloud.py",
        "not _AUTHORITY.fullmatch(authority)",
        "_AUTHORITY.fullmatch(authority) == ()",
        (STORES,),
    ),
    Mutation(
        "a copy that nobody could vouch for yesterday is taken for proved today",
        "app/archive/cold_withheld.py",
        " | _unproved_before(context)",
        "",
        ("tests/unit/archive/test_cold_withheld.py",),
    ),
)
