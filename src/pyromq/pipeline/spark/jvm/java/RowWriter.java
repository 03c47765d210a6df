package pyromq.lane;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/**
 * Writes the rows of one task; all of them are confirmed by brokers when commit returns. A request is sent when it is full,
 * and one that is not when nothing was sent for a moment: so rows that come one by one, as in real-time mode, go at once.
 */
final class RowWriter implements DataWriter<InternalRow> {
  private static final long MOMENT_NS = 1_000_000;
  private static final long CONFIRM_MS = 50; // so long a request waits, at least, before its response is looked for
  private static final long ROWS_MAX = 1L << 32;

  private final WritePlan.Task plan;
  private final SinkColumns columns;
  private final RowKeys keys;
  private final int partition;
  private final RowProperties properties;
  private final FoundRows checks;
  private final Sender sender;
  private final Packer packer;
  private final boolean isDone; // whether all of the batch lies in its topics already
  private Map<String, Integer> found; // rows that do; null until there is a row
  private long row; // the next
  private long skipped;
  private long lastSendNs;
  private Thread flusher; // sends what write() leaves behind, and looks for responses, once there is something
  private boolean isResting; // the flusher: until it is woken, or it is time to look for a response
  private IOException failure; // of the flusher
  private boolean isEnded;

  RowWriter(WritePlan.Task plan, StructType schema, int partition, long batch) {
    this.plan = plan;
    this.partition = partition;
    this.columns = new SinkColumns(schema);
    this.keys = new RowKeys(plan.sink().digest(), batch, partition);
    this.properties = new RowProperties(columns, plan.sink());
    this.isDone = plan.replay() != null && batch <= plan.replay().decided();
    this.checks = plan.replay() == null ? null : new FoundRows(plan);
    this.sender = new Sender(plan, checks);
    this.packer = new Packer(plan.sink(), columns, sender, checks != null);
  }

  /** What a task tells the driver. */
  private record Written(int partition, long rows, long skipped) implements WriterCommitMessage {}

  @Override
  public synchronized void write(InternalRow given) throws IOException {
    raiseFailure();
    if (isDone) {
      skipped++;
      return;
    }
    if (row >= ROWS_MAX) {
      throw new RefusedError("a partition has more than " + ROWS_MAX + " rows; split it");
    }
    byte[] body = columns.bodyOf(given);
    if (body.length == 0) {
      throw new RefusedError("column body, row " + row + ": it is empty, and brokers accept no message without a body");
    }
    byte[] key = keyOf(given);
    if (!isSent(key, body)) {
      packer.add(given, body, properties.of(given, key, row), key, row);
      sendWhatIsDue();
    }
    row++;
  }

  private byte[] keyOf(InternalRow given) {
    byte[] own = SinkColumns.isGiven(given, columns.uniqueKey) ? given.getUTF8String(columns.uniqueKey).getBytes() : null;
    return own != null && own.length > 0 ? keys.ofOwn(own) : keys.ofRow(row);
  }

  private boolean isSent(byte[] key, byte[] body) throws LaneError {
    if (checks == null) {
      return false;
    }
    if (found == null) {
      TaskContext task = TaskContext.get();
      found = checks.before(columns.uniqueKey >= 0 ? keys.digest : keys.head, task == null ? 0 : task.attemptNumber());
    }
    Integer crc = found.isEmpty() ? null : found.get(new String(key, StandardCharsets.ISO_8859_1));
    if (crc == null) {
      return false;
    }
    FoundRows.check(crc, body);
    skipped++;
    return true;
  }

  private void sendWhatIsDue() throws LaneError {
    long nowNs = System.nanoTime();
    if (packer.sendFull() || nowNs - lastSendNs >= MOMENT_NS && packer.sendAll()) {
      lastSendNs = nowNs;
    }
    if (flusher == null) {
      flusher = new Thread(this::flush, "pyromq-flusher-" + partition);
      flusher.setDaemon(true);
      flusher.start();
    } else if (isResting && packer.isOpen()) {
      notifyAll();
    }
  }

  /** The flusher's life. While a request is open it looks from moment to moment: waking it for each would cost more. */
  private synchronized void flush() {
    try {
      while (!isEnded) {
        long idleNs = System.nanoTime() - lastSendNs;
        if (packer.isOpen() && idleNs >= MOMENT_NS) {
          packer.sendAll();
          lastSendNs = System.nanoTime();
        } else if (!packer.isOpen() && sender.isWaiting() && idleNs >= CONFIRM_MS * 1_000_000) {
          sender.confirmOne();
        }
        isResting = !packer.isOpen();
        wait(!isResting ? 1 : sender.isWaiting() ? CONFIRM_MS : 0);
        isResting = false;
      }
    } catch (IOException error) {
      failure = error;
    } catch (RuntimeException error) {
      failure = new IOException(error);
    } catch (InterruptedException error) {
      failure = new RefusedError("the task was interrupted");
    }
  }

  private void raiseFailure() throws IOException {
    if (failure != null) {
      throw failure;
    }
  }

  @Override
  public synchronized WriterCommitMessage commit() throws IOException {
    raiseFailure();
    isEnded = true;
    notifyAll();
    packer.sendAll();
    return new Written(partition, sender.finish(), skipped);
  }

  @Override
  public void abort() {
    close();
  }

  @Override
  public void close() {
    sender.close(); // whoever waits for a response gets an error
    synchronized (this) {
      isEnded = true;
      notifyAll();
    }
  }
}
