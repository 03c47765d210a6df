package pyromq.lane;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Travels to executors and makes readers there; what it holds is only which columns a query needs. */
final class LaneReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final StructType columns;

  LaneReaderFactory(StructType columns) {
    this.columns = columns;
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true; // but in real-time mode, where Spark asks for rows one by one
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new LaneReader(((PullPlan) partition).task(), columns);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new LiveReader(((PullPlan) partition).task(), columns);
  }
}
