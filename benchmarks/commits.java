import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types.NestedField;

/** Many commits through Iceberg's own API, many in a transaction: few metadata files for them. */
public class Commits {

  /** Files that a transaction adds: it keeps them in memory, with their statistics. */
  private static final int IN_A_TRANSACTION = 100_000;

  /**
   * Each commit adds `added` files, and removes the first `removed` of those the one before added.
   *
   * @param before number of the first file that the table's newest commit added; -1 for none
   * @param first number of the first file to add
   * @return how many commits were made
   */
  public int write(
      Table table, String data, int folders, long before, long first,
      int commits, int added, int removed, long bytes) throws IOException {
    Transaction transaction = table.newTransaction();
    long previous = before;
    long next = first;
    int inside = 0;
    for (int commit = 0; commit < commits; commit += 1) {
      if (inside >= IN_A_TRANSACTION) {
        transaction.commitTransaction();
        transaction = table.newTransaction();
        inside = 0;
      }
      inside += added;
      List gone = new ArrayList();
      if (previous >= 0 && removed > 0) {
        gone = namedAmong(transaction.table(), data, folders, previous, removed);
      }
      if (gone.isEmpty()) {
        AppendFiles append = transaction.newAppend();
        for (long number = next; number < next + added; number += 1) {
          append.appendFile(file(table, data, folders, number, bytes));
        }
        append.commit();
      } else {
        OverwriteFiles overwrite = transaction.newOverwrite();
        for (Iterator files = gone.iterator(); files.hasNext();) {
          overwrite.deleteFile((DataFile) files.next());
        }
        for (long number = next; number < next + added; number += 1) {
          overwrite.addFile(file(table, data, folders, number, bytes));
        }
        overwrite.commit();
      }
      previous = next;
      next += added;
    }
    transaction.commitTransaction();
    return commits;
  }

  /** Read from their manifest, as an engine has them: Iceberg then knows where to look for them. */
  private List namedAmong(Table table, String data, int folders, long first, int count)
      throws IOException {
    Set names = new HashSet();
    for (long number = first; number < first + count; number += 1) {
      names.add(path(data, folders, number));
    }
    List found = new ArrayList();
    Snapshot newest = table.currentSnapshot();
    // Not by the snapshot's own list of added files: it would keep those of each commit in memory.
    for (Iterator each = newest.dataManifests(table.io()).iterator(); each.hasNext();) {
      ManifestFile manifest = (ManifestFile) each.next();
      if (manifest.snapshotId().longValue() == newest.snapshotId()) {
        ManifestReader files = ManifestFiles.read(manifest, table.io(), table.specs());
        for (Iterator file = files.iterator(); file.hasNext();) {
          DataFile one = (DataFile) file.next();
          if (names.contains(one.location())) {
            found.add(one.copy());
          }
        }
        files.close();
      }
    }
    if (found.size() != names.size()) {
      throw new IllegalStateException("found " + found.size() + " of " + names.size());
    }
    return found;
  }

  private DataFile file(Table table, String data, int folders, long number, long bytes) {
    return DataFiles.builder(table.spec())
        .withPath(path(data, folders, number))
        .withFormat("parquet")
        .withFileSizeInBytes(bytes)
        .withMetrics(metrics(table.schema().columns(), number))
        .build();
  }

  /**
   * What engines note of each column by default: sizes, counts and bounds. Those of a file are
   * always the same, so that a twin's commit writes what the other's does.
   */
  private Metrics metrics(List columns, long number) {
    if (columns.size() == 1) {
      return new Metrics(Long.valueOf(1L), null, null, null, null);
    }
    Random random = new Random(number);
    Long rows = Long.valueOf(1000000L + random.nextInt(1000000));
    Map sizes = new HashMap();
    Map values = new HashMap();
    Map nulls = new HashMap();
    Map nans = new HashMap();
    Map low = new HashMap();
    Map high = new HashMap();
    for (Iterator each = columns.iterator(); each.hasNext();) {
      NestedField column = (NestedField) each.next();
      Integer id = Integer.valueOf(column.fieldId());
      sizes.put(id, Long.valueOf(1000000L + random.nextInt(9000000)));
      values.put(id, rows);
      nulls.put(id, Long.valueOf(column.fieldId() % 4 == 0 ? random.nextInt(1000) : 0L));
      if (column.type().typeId() == Type.TypeID.DOUBLE) {
        nans.put(id, Long.valueOf(0L));
      }
      low.put(id, bound(column.type(), number, random, 0L));
      high.put(id, bound(column.type(), number, random, 3600000000L));
    }
    return new Metrics(rows, sizes, values, nulls, nans, low, high);
  }

  private ByteBuffer bound(Type type, long number, Random random, long more) {
    Object value;
    if (type.typeId() == Type.TypeID.LONG) {
      value = Long.valueOf(number * 1000000L + more + random.nextInt(1000000));
    } else if (type.typeId() == Type.TypeID.TIMESTAMP) {
      value = Long.valueOf(1700000000000000L + number * 3600000000L + more + random.nextInt());
    } else if (type.typeId() == Type.TypeID.DOUBLE) {
      value = Double.valueOf(random.nextDouble() + more);
    } else {
      // As long as the text that engines keep of a bound.
      value = Long.toString(1000000000000000L + (random.nextLong() >>> 12)).substring(0, 16);
    }
    return Conversions.toByteBuffer(type, value);
  }

  private String path(String data, int folders, long number) {
    return data + "/" + three(number % folders) + "/" + (100000000L + number) + ".parquet";
  }

  private String three(long number) {
    return Long.toString(1000L + number).substring(1);
  }
}
