package pyromq.lane;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the ranges of one task, one after the other: a batch of rows for each response. Where Spark hands batches to functions
 * of Python as they are, several responses make one: a function is called for each batch.
 */
final class LaneReader implements PartitionReader<ColumnarBatch> {
  private static final int GATHERED_BYTES_MAX = 8 << 20;
  private static final int GATHERED_MAX = 16;

  private final PullPlan.Task task;
  private final boolean gathers;
  private final Iterator<PullPlan.Range> left;
  private final RecordVector[] vectors;
  private final ColumnarBatch batch;
  private PullPlan.Range range;
  private RangePuller puller;

  LaneReader(PullPlan.Task task, StructType columns, boolean gathers) {
    this.task = task;
    this.gathers = gathers;
    this.left = task.ranges().iterator();
    this.vectors = RecordVector.of(columns);
    this.batch = new ColumnarBatch(vectors.clone());
  }

  @Override
  public boolean next() throws IOException {
    while (puller != null || left.hasNext()) {
      if (puller == null) {
        range = left.next();
        puller = new RangePuller(task, range);
      }
      byte[] found = gathers ? gathered() : puller.next();
      if (found == null) {
        close();
      } else if (show(new StoredRecords(found, range))) {
        return true;
      }
    }
    return false;
  }

  /** What the next responses have together; null at the end of the range. */
  private byte[] gathered() throws IOException {
    byte[] found = puller.next();
    if (found == null || found.length >= GATHERED_BYTES_MAX) {
      return found;
    }
    List<byte[]> parts = new ArrayList<>(List.of(found));
    int bytes = found.length;
    while (parts.size() < GATHERED_MAX && bytes < GATHERED_BYTES_MAX && (found = puller.next()) != null) {
      parts.add(found);
      bytes += found.length;
    }
    if (parts.size() == 1) {
      return parts.get(0);
    }
    ByteBuffer joined = ByteBuffer.allocate(bytes);
    parts.forEach(joined::put);
    return joined.array();
  }

  private boolean show(StoredRecords records) {
    for (RecordVector each : vectors) {
      each.show(records, range);
    }
    batch.setNumRows(records.count());
    return records.count() > 0;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() {
    if (puller != null) {
      puller.close();
      puller = null;
    }
  }
}
