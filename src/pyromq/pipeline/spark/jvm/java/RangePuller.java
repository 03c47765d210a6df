package pyromq.lane;

import java.io.Closeable;
import java.util.ArrayDeque;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Pulls one range. Several pulls are under way at once, at offsets guessed from the last responses; when a response has
 * fewer messages than guessed, those behind it missed and are asked again. With a filter the next offset cannot be guessed,
 * so pulls follow each other. (pyromq.pipeline.reading.pulls)
 */
final class RangePuller implements Closeable {
  private static final Logger LOGGER = LoggerFactory.getLogger(RangePuller.class);
  private static final int PULLS_MAX = 64;
  private static final int PULL_BYTES = 1 << 20; // our brokers send more than 32 messages to clients that name a size
  private static final int HITS_BEFORE_MORE = 64;
  private static final int SUSPEND_MS = 15_000;
  private static final long LOOK_MS = 100; // how often a task that waits looks whether it is still wanted
  private static final int FOUND = 0;
  private static final int NOTHING = 19;
  private static final int NO_MATCH = 20;
  private static final int MOVED = 21;
  private static final byte[] NO_RECORDS = new byte[0];

  private final PullPlan.Cluster cluster;
  private final PullPlan.Pulls pulls;
  private final PullPlan.Range range;
  private final Routes routes;
  private final RetryWindow retryWindow;
  private final ArrayDeque<Asked> asked = new ArrayDeque<>(); // pulls under way, in the order of their offsets
  private Connection connection;
  private boolean isMaster = true; // whether the connection leads to the master
  private long brokerId = Routes.MASTER_ID; // of the broker to ask next, as responses suggest it
  private long offset; // the next to read
  private int stride; // messages of a response, 0 when that is not known
  private int ceiling; // messages that a response has at most, as far as is known
  private int hits; // responses since the last miss
  private int responseBytes = 1; // of a full response

  RangePuller(PullPlan.Task task, PullPlan.Range range) {
    this.cluster = task.cluster();
    this.pulls = task.pulls();
    this.range = range;
    this.routes = new Routes(cluster, pulls);
    this.offset = range.start();
    this.ceiling = pulls.count();
    this.retryWindow = new RetryWindow("reading " + range.shown() + " at offset " + range.start(), pulls.retryMs());
  }

  private record Asked(int id, long offset, int count) {}

  /** The stored bytes of the next messages; null at the end of the range. */
  byte[] next() throws LaneError {
    while (offset < range.end()) {
      try {
        byte[] records = some();
        if (records.length > 0) {
          return records;
        }
      } catch (DataLossError error) {
        throw error;
      } catch (LaneError error) {
        LOGGER.info("pull failed: {} offset={} error={}", range.shown(), offset, error.getMessage());
        startAnew();
        retryWindow.failed(error);
      }
    }
    return null;
  }

  /** As next, of a range without end: waits at the broker for messages; null if there are none within that time. */
  byte[] poll(long waitMs) throws LaneError {
    long deadlineNs = System.nanoTime() + waitMs * 1_000_000;
    try {
      connect();
      if (asked.isEmpty()) {
        ask(offset, pulls.count());
      }
      while (!connection.hasSomething(Math.min(LOOK_MS, (deadlineNs - System.nanoTime()) / 1_000_000))) {
        if (System.nanoTime() >= deadlineNs) {
          return null;
        }
      }
      return taken(asked.peek(), connection.receive(asked.poll().id));
    } catch (DataLossError error) {
      throw error;
    } catch (LaneError error) {
      LOGGER.info("pull failed: {} offset={} error={}", range.shown(), offset, error.getMessage());
      startAnew();
      retryWindow.failed(error);
      return NO_RECORDS;
    }
  }

  long offset() {
    return offset;
  }

  private byte[] some() throws LaneError {
    connect();
    askAhead();
    Asked first = asked.peek();
    Frame.Response response = connection.receive(first.id);
    asked.poll();
    byte[] records = taken(first, response);
    if (!asked.isEmpty() && asked.peek().offset != offset) {
      forgetAsked();
    }
    return records;
  }

  // --- pulls ---

  private void connect() throws LaneError {
    if (connection != null) {
      return;
    }
    TreeMap<Long, String> addresses = routes.of(range.topic(), range.broker());
    if (addresses.isEmpty()) {
      throw new TransportError("no address of broker " + range.broker() + " is known", null);
    }
    String address = addresses.getOrDefault(brokerId, addresses.firstEntry().getValue());
    isMaster = address.equals(addresses.get(Routes.MASTER_ID));
    connection = Connections.take(address, cluster, pulls);
  }

  private void askAhead() throws LaneError {
    if (stride == 0 || !range.isOpen()) {
      if (asked.isEmpty()) {
        ask(offset, pulls.count());
      }
      return;
    }
    int window = Math.max(2, Math.min(PULLS_MAX, (pulls.gatherBytes() + responseBytes - 1) / responseBytes));
    long place = asked.isEmpty() ? offset : asked.peekLast().offset + asked.peekLast().count;
    while (asked.size() < window && place < range.end()) {
      place += ask(place, stride);
    }
  }

  private int ask(long place, int most) throws LaneError {
    int count = (int) Math.min(most, range.end() - place);
    TreeMap<String, String> fields = new TreeMap<>();
    fields.put("consumerGroup", pulls.group());
    fields.put("topic", range.topic());
    fields.put("queueId", Integer.toString(range.queue()));
    fields.put("queueOffset", Long.toString(place));
    fields.put("maxMsgNums", Integer.toString(count));
    fields.put("sysFlag", range.hasEnd() ? "4" : "6"); // a subscription is said; and: wait for messages
    fields.put("commitOffset", "0");
    fields.put("suspendTimeoutMillis", range.hasEnd() ? "0" : Integer.toString(SUSPEND_MS));
    fields.put("subscription", range.expression());
    fields.put("subVersion", "0");
    fields.put("expressionType", range.kind());
    fields.put("maxMsgBytes", Integer.toString(PULL_BYTES));
    asked.add(new Asked(connection.send(Frame.PULL_MESSAGE, fields), place, count));
    return count;
  }

  private void forgetAsked() {
    asked.forEach(each -> connection.forget(each.id));
    asked.clear();
  }

  // --- responses ---

  /** The messages of one response; moves on. */
  private byte[] taken(Asked pull, Frame.Response response) throws LaneError {
    int code = response.code();
    if (code != FOUND && code != NO_MATCH && code != NOTHING && code != MOVED) {
      throw new BrokerError(code, response.remark());
    }
    long suggested = response.number("suggestWhichBrokerId");
    if (code == NOTHING || code == MOVED) {
      brokerId = Routes.MASTER_ID;
      passOver(response.number("minOffset"), response.number("maxOffset"));
      return NO_RECORDS;
    }
    long next = response.number("nextBeginOffset");
    long moved = next - offset;
    if (moved <= 0) {
      throw new BrokerError(code, "the response to a pull at offset " + offset + " points back to " + next);
    }
    retryWindow.succeeded();
    offset = next;
    turnTo(Math.max(Routes.MASTER_ID, suggested));
    if (code == NO_MATCH) {
      return NO_RECORDS;
    }
    learn(pull, moved, response.body().length);
    return response.body();
  }

  /** How many messages a response has: fewer when they are larger than before, more as long as there is room. */
  private void learn(Asked pull, long moved, int bytes) {
    responseBytes = Math.max(1, bytes);
    if (moved < pull.count && offset < range.end()) {
      boolean isFull = stride > 0 && bytes > PULL_BYTES / 2; // sizes differ: leave some room
      ceiling = (int) Math.max(1, isFull ? moved * 7 / 8 : moved);
      stride = ceiling;
      hits = 0;
      return;
    }
    if (++hits % HITS_BEFORE_MORE == 0) {
      ceiling = Math.min(pulls.count(), ceiling * 2);
    }
    stride = stride == 0 ? pull.count : bytes < PULL_BYTES / 2 ? Math.min(ceiling, stride * 2) : stride;
  }

  /** The next pulls go where the last response said. */
  private void turnTo(long suggested) {
    if (suggested != brokerId) {
      brokerId = suggested;
      giveBack();
    }
  }

  /** What the plan says is not there. */
  private void passOver(long first, long end) throws LaneError {
    boolean isHeld = first <= offset && offset < end;
    if (!range.hasEnd() && first <= offset && offset <= end) {
      retryWindow.succeeded();
      return; // nothing came while the broker waited
    }
    if (isHeld || !isMaster) { // replicas may be behind
      throw new BrokerError(
          NOTHING, "the broker finds no message at offset " + offset + " of [" + first + ", " + end + ")");
    }
    long low = offset < first ? Math.min(first, range.end()) : range.end();
    String loss =
        range.shown() + (offset < first ? " begins at " + first : " ends at " + end) + " now, offsets " + offset + " to "
            + low + " are gone";
    if (pulls.failOnDataLoss()) {
      throw new DataLossError(loss);
    }
    LOGGER.warn("messages skipped: {}", loss);
    offset = low;
  }

  // --- the connection ---

  /** After a failure: the queue may have moved meanwhile. */
  private void startAnew() {
    if (connection != null) {
      Connections.drop(connection.address, cluster);
      connection.close();
      connection = null;
    }
    asked.clear();
    brokerId = Routes.MASTER_ID;
    routes.forget(range.topic());
  }

  private void giveBack() {
    if (connection != null) {
      forgetAsked();
      Connections.giveBack(connection, cluster);
      connection = null;
    }
  }

  @Override
  public void close() {
    giveBack();
  }
}
