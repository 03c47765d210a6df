package pyromq.lane;

import java.util.Arrays;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** A query that the JVM reads and Python plans. */
final class LaneScan implements Scan, Batch {
  private final Scan planned;
  private final StructType columns;
  private final Filter[] conditions; // that the plan heeds
  private Batch batch; // the planner's
  private LaneStream stream; // ours

  LaneScan(Scan planned, StructType columns, Filter[] conditions) {
    this.conditions = conditions;
    this.planned = planned;
    this.columns = columns;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    String filters = conditions.length == 0 ? "" : ", PushedFilters: " + Arrays.toString(conditions);
    return "pyromq lane=jvm columns=[" + String.join(", ", columns.fieldNames()) + "]" + filters;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return stream != null && stream.isRealTime() ? ColumnarSupportMode.UNSUPPORTED : ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public Batch toBatch() {
    batch = planned.toBatch();
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    MicroBatchStream offsets = planned.toMicroBatchStream(checkpointLocation);
    stream = new LaneStream((SupportsTriggerAvailableNow) offsets, offsets, columns);
    return stream;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return plans(batch.planInputPartitions());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LaneReaderFactory(columns);
  }

  /** The plans that Python made; it makes none where there is nothing to read, and Spark makes up one without a value. */
  static InputPartition[] plans(InputPartition[] pickled) {
    return Arrays.stream(pickled).map(PullPlan::unpickled).filter(plan -> plan != null).toArray(InputPartition[]::new);
  }
}
