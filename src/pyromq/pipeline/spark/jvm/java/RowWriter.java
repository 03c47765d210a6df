package pyromq.lane;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
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

  private final WritePlan.Replay replay; // null where rows may be sent twice, or nothing is sent
  private final SinkColumns columns;
  private final RowKeys keys;
  private final int partition;
  private final RowProperties properties;
  private final FoundRows checks;
  private final Sender sender;
  private final Packer packer;
  private final BadRows bad; // null where they end the task
  private final boolean isDone; // whether all of the batch lies in its topics already
  private Map<String, Integer> found; // rows that do; null until there is a row
  private long row; // the next that can be sent
  private long skipped;
  private long lastSendNs;
  private Thread flusher; // sends what write() leaves behind, and looks for responses, once there is something
  private boolean isResting; // the flusher: until it is woken, or it is time to look for a response
  private IOException failure; // of the flusher
  private boolean isEnded;

  RowWriter(WritePlan.Task plan, StructType schema, int partition, long batch) {
    WritePlan.Replay replay = plan.replay();
    this.isDone = replay != null && replay.isDone(batch);
    this.replay = replay == null || isDone ? null : replay.of(batch);
    WritePlan.Numbering goesOn = this.replay == null ? null : this.replay.goesOn();
    this.partition = partition;
    this.columns = new SinkColumns(schema);
    this.keys = new RowKeys(plan.sink().digest(), goesOn == null ? batch : goesOn.batch(), partition);
    this.row = goesOn == null ? 0 : goesOn.rows().getOrDefault(partition, 0L);
    this.properties = new RowProperties(columns, plan.sink());
    this.checks = this.replay == null ? null : new FoundRows(plan, this.replay);
    this.sender = new Sender(plan, checks);
    this.packer = new Packer(plan.sink(), columns, sender, checks != null);
    this.bad = plan.sink().setsAside() ? new BadRows(plan, schema, batch + "-" + partition + "-" + Attempts.number()) : null;
  }

  /** What a task tells the driver; {@code next} is the number of the next row, {@code found} are rows of an earlier run. */
  record Written(int partition, long rows, long skipped, long next, long found, boolean hasOwnKeys) implements WriterCommitMessage {}

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
    try {
      pack(given);
      row++;
      sendWhatIsDue();
    } catch (BadRowError error) {
      if (bad == null) {
        throw error;
      }
      bad.put(given, row + bad.count(), error);
    }
  }

  /** Adds a row to its request, unless it is sent already. Rows that are set aside have no keys, but are counted in errors. */
  private void pack(InternalRow given) throws LaneError {
    long number = row + (bad == null ? 0 : bad.count());
    byte[] body = columns.bodyOf(given);
    if (body.length == 0) {
      throw new BadRowError("column body, row " + number + ": it is empty, and brokers accept no message without a body");
    }
    byte[] key = keyOf(given);
    if (!isSent(key, body)) {
      packer.add(given, body, properties, key, number);
    }
  }

  private byte[] keyOf(InternalRow given) {
    byte[] own = SinkColumns.isGiven(given, columns.uniqueKey) ? given.getUTF8String(columns.uniqueKey).getBytes() : null;
    return own != null && own.length > 0 ? keys.ofOwn(own) : keys.ofRow(row);
  }

  private boolean isSent(byte[] key, byte[] body) throws LaneError {
    if (checks == null) {
      return false;
    }
    findEarlier();
    Integer crc = found.isEmpty() ? null : found.get(new String(key, StandardCharsets.ISO_8859_1));
    if (crc == null) {
      return false;
    }
    FoundRows.check(crc, body);
    skipped++;
    return true;
  }

  private void findEarlier() throws LaneError {
    if (found == null) {
      Attempts.awaitTurn();
      found = checks.before(columns.uniqueKey >= 0 ? keys.digest : keys.head, Attempts.number() > 0);
    }
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
    long sent = sender.finish();
    if (bad != null) {
      bad.finish();
    }
    if (replay != null && replay.isLive()) {
      findEarlier(); // also where no row came: an earlier run may have had some
    }
    return new Written(partition, sent, skipped, row, found == null ? 0 : found.size(), columns.uniqueKey >= 0);
  }

  @Override
  public void abort() {
    close();
  }

  @Override
  public void close() {
    sender.close(); // whoever waits for a response gets an error
    if (bad != null) {
      bad.close();
    }
    synchronized (this) {
      isEnded = true;
      notifyAll();
    }
  }
}
