package pyromq.lane;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;

/** A write that Python plans and the JVM does. Rows of output mode update are sent as they come: a topic has no rows to change. */
final class LaneWriteBuilder implements WriteBuilder, SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final WritePlanner planner;
  private boolean overwrites;

  LaneWriteBuilder(WritePlanner planner) {
    this.planner = planner;
  }

  /** The planner refuses it in words. */
  @Override
  public WriteBuilder truncate() {
    overwrites = true;
    return this;
  }

  @Override
  public Write build() {
    return new Write() {
      @Override
      public BatchWrite toBatch() {
        return new Batch(planner, overwrites);
      }

      @Override
      public StreamingWrite toStreaming() {
        return new StreamOfBatches(planner, overwrites);
      }

      @Override
      public String description() {
        return "pyromq lane=jvm";
      }
    };
  }

  /** Travels to executors and makes writers there. */
  private record Factory(WritePlan plan, StructType columns) implements DataWriterFactory, StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task) {
      return createWriter(partition, task, 0);
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long batch) {
      return new RowWriter(plan.task(), columns, partition, batch);
    }
  }

  private record Batch(WritePlanner planner, boolean overwrites) implements BatchWrite {
    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      return new Factory(planner.ofBatch(overwrites), planner.columns);
    }

    @Override
    public boolean useCommitCoordinator() {
      return false; // what a task has sent stays, whoever may commit
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {} // tasks have done everything

    @Override
    public void abort(WriterCommitMessage[] messages) {} // what was sent stays: a topic forgets nothing
  }

  private static final class StreamOfBatches implements StreamingWrite {
    private final WritePlanner planner;
    private final boolean overwrites;
    private WritePlan plan; // of the batch

    StreamOfBatches(WritePlanner planner, boolean overwrites) {
      this.planner = planner;
      this.overwrites = overwrites;
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      plan = planner.ofStream(overwrites);
      return new Factory(plan, planner.columns);
    }

    @Override
    public boolean useCommitCoordinator() {
      return false;
    }

    @Override
    public void commit(long batch, WriterCommitMessage[] messages) {
      if (plan.isIdempotent()) {
        planner.committed(batch, plan.isLive() ? Arrays.stream(messages).map(RowWriter.Written.class::cast).toList() : null);
      }
    }

    @Override
    public void abort(long batch, WriterCommitMessage[] messages) {}
  }
}
