package pyromq.lane;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/** A stream whose offsets, limits, group and checkpoints are those of the Python source, and whose rows are read here. */
final class LaneStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final SupportsTriggerAvailableNow limited; // both are one object
  private final MicroBatchStream planned;
  private final StructType columns;

  LaneStream(SupportsTriggerAvailableNow limited, MicroBatchStream planned, StructType columns) {
    this.limited = limited;
    this.planned = planned;
    this.columns = columns;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return LaneScan.plans(planned.planInputPartitions(start, end));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LaneReaderFactory(columns);
  }

  @Override
  public Offset initialOffset() {
    return planned.initialOffset();
  }

  @Override
  public Offset latestOffset() {
    return planned.latestOffset();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return limited.latestOffset(start, limit);
  }

  @Override
  public Offset reportLatestOffset() {
    return limited.reportLatestOffset();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return limited.getDefaultReadLimit();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    limited.prepareForTriggerAvailableNow();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return planned.deserializeOffset(json);
  }

  @Override
  public void commit(Offset end) {
    planned.commit(end);
  }

  @Override
  public void stop() {
    planned.stop();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return Map.of("lane", "jvm");
  }

  @Override
  public String toString() {
    return "pyromq[lane=jvm]";
  }
}
