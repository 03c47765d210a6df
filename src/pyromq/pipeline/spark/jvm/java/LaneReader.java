package pyromq.lane;

import java.io.IOException;
import java.util.Iterator;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the ranges of one task, one after the other: a batch of rows for each response. */
final class LaneReader implements PartitionReader<ColumnarBatch> {
  private final PullPlan.Task task;
  private final Iterator<PullPlan.Range> left;
  private final RecordVector[] vectors;
  private final ColumnarBatch batch;
  private PullPlan.Range range;
  private RangePuller puller;

  LaneReader(PullPlan.Task task, StructType columns) {
    this.task = task;
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
      byte[] found = puller.next();
      if (found == null) {
        close();
      } else if (show(new StoredRecords(found, range))) {
        return true;
      }
    }
    return false;
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
