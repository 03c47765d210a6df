package pyromq.lane;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads one queue row by row as messages come, for as long as the batch of real-time mode lasts. */
final class LiveReader implements SupportsRealTimeRead<InternalRow> {
  private final PullPlan.Range range;
  private final RangePuller puller;
  private final RecordVector[] vectors;
  private final ColumnarBatch batch;
  private StoredRecords records; // of the last response
  private int row = -1; // of those, the one that Spark has
  private long next; // offset of the message behind it

  LiveReader(PullPlan.Task task, StructType columns) {
    this.range = task.ranges().get(0);
    this.puller = new RangePuller(task, range);
    this.vectors = RecordVector.of(columns);
    this.batch = new ColumnarBatch(vectors.clone());
    this.next = range.start();
  }

  @Override
  public RecordStatus nextWithTimeout(Long timeoutMs) throws IOException {
    long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
    while (records == null || row + 1 >= records.count()) {
      long leftMs = (deadlineNs - System.nanoTime()) / 1_000_000;
      byte[] found = puller.poll(Math.max(0, leftMs));
      if (found != null && found.length > 0) {
        show(new StoredRecords(found, range));
      }
      next = records == null || row + 1 >= records.count() ? puller.offset() : next;
      if (leftMs <= 0 && (records == null || row + 1 >= records.count())) {
        return RecordStatus.newStatusWithoutArrivalTime(false);
      }
    }
    row++;
    next = records.offset(row) + 1;
    return RecordStatus.newStatusWithArrivalTimeMs(records.storedMs(row));
  }

  /** The form of Spark 4.3, which also says when the batch began. */
  public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) throws IOException {
    return nextWithTimeout(timeoutMs);
  }

  private void show(StoredRecords found) {
    records = found;
    row = -1;
    for (RecordVector each : vectors) {
      each.show(found, range);
    }
    batch.setNumRows(found.count());
  }

  @Override
  public boolean next() {
    throw new UnsupportedOperationException("real-time mode waits with nextWithTimeout");
  }

  @Override
  public InternalRow get() {
    return batch.getRow(row);
  }

  @Override
  public PartitionOffset getOffset() {
    return new QueueOffset(range.topic(), range.broker(), range.queue(), next);
  }

  @Override
  public void close() {
    puller.close();
  }
}
