package pyromq.lane;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset;
import org.apache.spark.sql.types.StructType;

/** A stream whose offsets, limits, group and checkpoints are those of the Python source, and whose rows are read here. */
final class LaneStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode, ReportsSourceMetrics {
  private static final Offset OPEN = new PythonStreamingSourceOffset("{\"+\": \"open\"}"); // the planner knows it

  private final SupportsTriggerAvailableNow limited; // both are one object
  private final MicroBatchStream planned;
  private final StructType columns;
  private boolean isRealTime;
  private PlanAhead ahead; // of the next batch, if it was asked where it ends
  private Offset report; // for the progress, as of then

  LaneStream(SupportsTriggerAvailableNow limited, MicroBatchStream planned, StructType columns) {
    this.limited = limited;
    this.planned = planned;
    this.columns = columns;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return ahead != null && ahead.isFor(start, end) ? ahead.plans() : plan(start, end);
  }

  private InputPartition[] plan(Offset start, Offset end) {
    synchronized (planned) { // Python answers one question at a time
      return LaneScan.plans(planned.planInputPartitions(start, end));
    }
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LaneReaderFactory(columns);
  }

  // --- real-time mode: one long batch, whose tasks read their queues as messages come ---

  /** Spark 4.3 calls it before it plans; its interface has it since then. */
  public void prepareForRealTimeMode() {
    isRealTime = true;
  }

  boolean isRealTime() {
    return isRealTime;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return planInputPartitions(start, OPEN);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] offsets) {
    return new PythonStreamingSourceOffset(QueueOffset.tree(offsets));
  }

  // --- what the planner says ---

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
    synchronized (planned) {
      Offset end = limited.latestOffset(start, limit);
      report = limited.reportLatestOffset(); // Spark asks for it next
      ahead = end == null || isRealTime || end.json().equals(start.json()) ? null : PlanAhead.of(start, end, () -> plan(start, end));
      return end;
    }
  }

  @Override
  public Offset reportLatestOffset() {
    return report == null ? limited.reportLatestOffset() : report;
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
  public void commit(Offset end) {} // the planner has nothing to do then: it tells the group before the next batch

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
