import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;

import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;

/** Many commits through Iceberg's own API, in one transaction: one metadata file for all of them. */
public class Commits {

  /**
   * Each commit adds `added` files, and removes the first `removed` of those the one before added.
   *
   * @param before number of the first file that the table's newest commit added; -1 for none
   * @param first number of the first file to add
   * @return how many commits were made
   */
  public int write(
      Table table, String data, int folders, long before, long first,
      int commits, int added, int removed, long bytes) {
    Transaction transaction = table.newTransaction();
    long previous = before;
    long next = first;
    for (int commit = 0; commit < commits; commit += 1) {
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
  private List namedAmong(Table table, String data, int folders, long first, int count) {
    Set names = new HashSet();
    for (long number = first; number < first + count; number += 1) {
      names.add(path(data, folders, number));
    }
    List found = new ArrayList();
    Snapshot newest = table.currentSnapshot();
    for (Iterator files = newest.addedDataFiles(table.io()).iterator(); files.hasNext();) {
      DataFile file = (DataFile) files.next();
      if (names.contains(file.location())) {
        found.add(file.copy());
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
        .withRecordCount(1L)
        .build();
  }

  private String path(String data, int folders, long number) {
    return data + "/" + three(number % folders) + "/" + (100000000L + number) + ".parquet";
  }

  private String three(long number) {
    return Long.toString(1000L + number).substring(1);
  }
}
