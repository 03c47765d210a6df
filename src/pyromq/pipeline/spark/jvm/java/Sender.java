package pyromq.lane;

import java.io.Closeable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends the requests of one task: several are under way at a time, each until a broker has confirmed it or its retry window
 * ends. Requests for one named queue follow each other one by one, so that a second attempt cannot overtake; all others go
 * to the next queue, and to another broker when theirs does not answer. Not for several threads at a time.
 * (pyromq.pipeline.sink.sender)
 */
final class Sender implements Closeable {
  private static final Logger LOGGER = LoggerFactory.getLogger(Sender.class);
  private static final Set<Integer> STORED = Set.of(0, 11); // pyromq.wire.send_statuses
  private static final Set<Integer> UNSURE = Set.of(10, 12); // the next master may lack what was answered so
  private static final int SYSTEM_ERROR = 1;
  private static final int BATCH_WEIGHT = 128; // messages that travel alone count as much as a batch of so many

  private final PullPlan.Cluster cluster;
  private final PullPlan.Pulls pulls;
  private final WritePlan.Sink sink;
  private final FoundRows checks; // null where rows may be sent twice
  private final String digest;
  private final Routes routes;
  private final Map<String, Connection> connections = new ConcurrentHashMap<>(); // by broker; close() comes from anywhere
  private final Map<String, Queues> queues = new HashMap<>(); // by topic, as servers name it
  private final ArrayDeque<Flight> flights = new ArrayDeque<>();
  private int weight; // of those
  private long rows; // confirmed
  private volatile boolean isClosed;

  Sender(WritePlan.Task plan, FoundRows checks) {
    this.cluster = plan.cluster();
    this.pulls = plan.pulls();
    this.sink = plan.sink();
    this.digest = sink.digest();
    this.checks = checks;
    this.routes = new Routes(cluster, pulls);
  }

  /** A request that no broker has confirmed yet. */
  private record Flight(SendRequest request, Routes.Queue queue, Connection connection, int id) {
    int weight() {
      return request.isBatch() ? BATCH_WEIGHT : 1;
    }
  }

  /** Queues of a topic, one after the other. */
  private static final class Queues {
    final List<Routes.Queue> all;
    final long foundMs = System.currentTimeMillis();
    int cursor;

    Queues(List<Routes.Queue> all) {
      this.all = all;
      this.cursor = ThreadLocalRandom.current().nextInt(all.size());
    }

    Routes.Queue next(String lastBroker) {
      for (int tried = 0; tried < all.size(); tried++) {
        Routes.Queue found = all.get(cursor++ % all.size());
        if (!found.broker().equals(lastBroker)) {
          return found;
        }
      }
      return all.get(cursor++ % all.size());
    }
  }

  /** Queues of a topic, in the order that sharding keys choose by. */
  List<Routes.Queue> queuesOf(String topic) throws LaneError {
    RetryWindow window = new RetryWindow("asking for the queues of topic " + topic, pulls.retryMs());
    while (true) {
      try {
        return known(topic).all;
      } catch (LaneError error) {
        window.failed(error);
      }
    }
  }

  /** Sends a request as soon as there is room. */
  void put(SendRequest request) throws LaneError {
    Routes.Queue named = request.target.queue();
    while (weight >= sink.inFlight() * BATCH_WEIGHT || named != null && isUnderWay(named)) {
      confirmOne();
    }
    try {
      send(request, "");
    } catch (SendFailure failure) {
      retry(request, failure);
    }
  }

  boolean isWaiting() {
    return !flights.isEmpty();
  }

  /** Waits for the oldest request. */
  void confirmOne() throws LaneError {
    Flight oldest = flights.poll();
    weight -= oldest.weight();
    try {
      confirm(oldest);
    } catch (SendFailure failure) {
      retry(oldest.request, failure);
    }
  }

  /** All that was put is confirmed when it returns: so many rows. */
  long finish() throws LaneError {
    while (!flights.isEmpty()) {
      confirmOne();
    }
    connections.values().forEach(each -> Connections.giveBack(each, cluster));
    connections.clear();
    return rows;
  }

  /** Nothing more is sent, and whoever waits for a response gets an error. */
  @Override
  public void close() {
    isClosed = true;
    connections.values().forEach(Connection::close);
    connections.clear();
  }

  // --- attempts ---

  /** An attempt that failed, where it went, and whether it may have been stored for all that. */
  private static final class SendFailure extends Exception {
    private static final long serialVersionUID = 1L;
    final transient LaneError error;
    final transient Routes.Queue queue; // null when there was none to choose
    final boolean mayHaveArrived;

    SendFailure(LaneError error, Routes.Queue queue, boolean mayHaveArrived) {
      super(error);
      this.error = error;
      this.queue = queue;
      this.mayHaveArrived = mayHaveArrived;
    }
  }

  private void send(SendRequest request, String lastBroker) throws SendFailure {
    Routes.Queue queue = request.target.queue();
    Connection connection = null;
    try {
      if (isClosed) {
        throw new RefusedError("the task has ended");
      }
      Queues choices = known(request.target.topic());
      queue = queue == null ? choices.next(lastBroker) : queue;
      connection = connectionTo(queue);
      int id = connection.send(
          request.isBatch() ? Frame.SEND_BATCH_MESSAGE : Frame.SEND_MESSAGE_V2, fields(request, queue), request.body);
      Flight flight = new Flight(request, queue, connection, id);
      flights.add(flight);
      weight += flight.weight();
    } catch (LaneError error) {
      lost(queue, connection);
      throw new SendFailure(error, queue, connection != null);
    }
  }

  private void confirm(Flight flight) throws SendFailure {
    Frame.Response response;
    try {
      response = flight.connection.receive(flight.id);
    } catch (TransportError error) {
      lost(flight.queue, flight.connection);
      throw new SendFailure(error, flight.queue, true);
    }
    if (!STORED.contains(response.code())) {
      BrokerError error = new BrokerError(response.code(), response.remark());
      throw new SendFailure(error, flight.queue, response.code() == SYSTEM_ERROR || UNSURE.contains(response.code()));
    }
    rows += flight.request.rows;
  }

  /** Sends until the request is stored; others wait meanwhile. */
  private void retry(SendRequest request, SendFailure first) throws LaneError {
    String topic = request.target.topic();
    RetryWindow window = new RetryWindow("sending " + request.rows + " rows to topic " + topic, pulls.retryMs());
    SendFailure failure = first;
    while (true) {
      LOGGER.info("rows not sent, trying again: topic={} error={}", topic, failure.error.getMessage());
      queues.remove(topic);
      routes.forget(topic);
      window.failed(failure.error);
      if (checks != null && failure.mayHaveArrived && failure.queue != null) {
        FoundRows.pause(sink.settleMs());
        if (checks.isStored(request, failure.queue, digest)) {
          rows += request.rows;
          return;
        }
      }
      try {
        send(request, failure.queue == null ? "" : failure.queue.broker());
        Flight again = flights.pollLast();
        weight -= again.weight();
        confirm(again);
        return;
      } catch (SendFailure error) {
        failure = error;
      }
    }
  }

  private boolean isUnderWay(Routes.Queue queue) {
    return flights.stream().anyMatch(each -> queue.equals(each.queue));
  }

  private TreeMap<String, String> fields(SendRequest request, Routes.Queue queue) {
    TreeMap<String, String> fields = new TreeMap<>();
    fields.put("a", sink.group());
    fields.put("b", queue.topic());
    fields.put("c", Routes.TEMPLATE_TOPIC);
    fields.put("d", Integer.toString(Routes.NEW_TOPIC_QUEUES));
    fields.put("e", Integer.toString(queue.number()));
    fields.put("f", "0");
    fields.put("g", Long.toString(System.currentTimeMillis()));
    fields.put("h", Integer.toString(request.flag));
    fields.put("i", request.isBatch() ? "" : request.properties);
    fields.put("j", "0");
    fields.put("k", "false");
    fields.put("m", Boolean.toString(request.isBatch()));
    fields.put("n", queue.broker());
    return fields;
  }

  // --- where to ---

  private Queues known(String topic) throws LaneError {
    Queues found = queues.get(topic);
    if (found == null || System.currentTimeMillis() - found.foundMs >= pulls.discoveryMs()) {
      found = new Queues(new ArrayList<>(routes.toWrite(topic)));
      queues.put(topic, found);
    }
    return found;
  }

  private Connection connectionTo(Routes.Queue queue) throws LaneError {
    Connection found = connections.get(queue.broker());
    if (found == null) {
      found = Connections.take(routes.masterOf(queue), cluster, pulls);
      connections.put(queue.broker(), found);
    }
    return found;
  }

  /** A connection that failed, and those to the same server that nobody uses: it may have restarted. */
  private void lost(Routes.Queue queue, Connection connection) {
    if (connection != null) {
      Connections.drop(connection.address, cluster);
      connection.close();
      connections.remove(queue.broker(), connection);
    }
  }
}
