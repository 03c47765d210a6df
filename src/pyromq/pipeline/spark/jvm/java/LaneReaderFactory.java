package pyromq.lane;

import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Travels to executors and makes readers there; what it holds is which columns a query needs, and how large batches are best. */
final class LaneReaderFactory implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private static final String BATCHES_AS_THEY_ARE = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled";

  private final StructType columns;
  private final boolean gathers;

  LaneReaderFactory(StructType columns) {
    this.columns = columns;
    this.gathers = handsBatchesOver();
  }

  /** Whether functions of Python may get our batches: a setting of the session, since Spark 4.3. */
  private static boolean handsBatchesOver() {
    try {
      return Boolean.parseBoolean(SQLConf.get().getConfString(BATCHES_AS_THEY_ARE));
    } catch (NoSuchElementException error) { // of an older Spark
      return false;
    }
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true; // but in real-time mode, where Spark asks for rows one by one
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new LaneReader(((PullPlan) partition).task(), columns, gathers);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new LiveReader(((PullPlan) partition).task(), columns);
  }
}
