package pyromq.lane;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/** Addresses of brokers and queues of topics, as name servers say them; kept for discoveryInterval. */
final class Routes {
  static final long MASTER_ID = 0;
  private static final int TOPIC_NOT_EXIST = 17;
  static final String TEMPLATE_TOPIC = "TBW102"; // brokers that create topics by themselves list it
  static final int NEW_TOPIC_QUEUES = 4;
  private static final int READ = 4;
  private static final int WRITE = 2;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<Topic, Known> KNOWN = new ConcurrentHashMap<>();

  private final PullPlan.Cluster cluster;
  private final PullPlan.Pulls pulls;

  Routes(PullPlan.Cluster cluster, PullPlan.Pulls pulls) {
    this.cluster = cluster;
    this.pulls = pulls;
  }

  private record Topic(String name, PullPlan.Cluster cluster) {}

  /** A queue of a topic, as servers name it. */
  record Queue(String topic, String broker, int number) {}

  /** What a broker has of a topic. */
  private record Share(String broker, int readQueues, int writeQueues, int rights) {}

  private final java.util.Set<String> seen = java.util.concurrent.ConcurrentHashMap.newKeySet(); // topics that were known before

  /** Addresses of each broker by id, what each has of the topic, the order of an ordered one, and when they were asked. */
  private record Known(Map<String, TreeMap<Long, String>> brokers, List<Share> shares, List<Share> ordered, long askedMs) {}

  /** The addresses of a broker of the topic, by id; none while it is not registered. */
  TreeMap<Long, String> of(String topic, String broker) throws LaneError {
    return known(topic).brokers.getOrDefault(broker, new TreeMap<>());
  }

  /** The address of the broker that takes messages of a queue: of its master, also while the topic is only to be created. */
  String masterOf(Queue queue) throws LaneError {
    String address = knownOrTemplate(queue.topic).brokers.getOrDefault(queue.broker, new TreeMap<>()).get(MASTER_ID);
    if (address == null) {
      throw new TransportError("no address of broker " + queue.broker + " is known", null);
    }
    return address;
  }

  /** Queues of a topic that may be written to, sorted: those it would have, if it is to be created by the first message. */
  List<Queue> toWrite(String topic) throws LaneError {
    Known known = knownOrTemplate(topic);
    boolean isBorrowed = !KNOWN.containsKey(new Topic(topic, cluster));
    List<Queue> found = new ArrayList<>();
    for (Share each : known.ordered.isEmpty() ? known.shares : known.ordered) {
      boolean hasMaster = known.brokers.getOrDefault(each.broker, new TreeMap<>()).containsKey(MASTER_ID);
      int count = isBorrowed ? Math.min(NEW_TOPIC_QUEUES, Math.min(each.readQueues, each.writeQueues)) : each.writeQueues;
      add(found, topic, each.broker, !known.ordered.isEmpty() || (each.rights & WRITE) != 0 && hasMaster ? count : 0);
    }
    if (found.isEmpty()) {
      forget(topic);
      String problem = "topic " + topic + " has no queue that can be written to";
      boolean isHeadless = known.shares.stream().anyMatch(each -> (each.rights & WRITE) != 0 && each.writeQueues > 0);
      throw isHeadless ? new TransportError(problem + " now: its brokers have no master", null) : new RefusedError(problem);
    }
    return sorted(found);
  }

  /** Queues of a topic that may be read, sorted. */
  List<Queue> toRead(String topic) throws LaneError {
    List<Queue> found = new ArrayList<>();
    known(topic).shares.forEach(each -> add(found, topic, each.broker, (each.rights & READ) != 0 ? each.readQueues : 0));
    return sorted(found);
  }

  private static void add(List<Queue> to, String topic, String broker, int count) {
    for (int number = 0; number < count; number++) {
      to.add(new Queue(topic, broker, number));
    }
  }

  private static List<Queue> sorted(List<Queue> queues) {
    queues.sort(Comparator.comparing(Queue::broker).thenComparing(Queue::number));
    return queues;
  }

  private Known knownOrTemplate(String topic) throws LaneError {
    try {
      return known(topic);
    } catch (BrokerError error) {
      if (error.code != TOPIC_NOT_EXIST) {
        throw error;
      }
      if (seen.contains(topic)) { // its brokers register again: the template may have other queues than the topic
        throw new TransportError("no name server knows topic " + topic + " now", error);
      }
    }
    try {
      return known(TEMPLATE_TOPIC);
    } catch (BrokerError error) {
      throw error.code != TOPIC_NOT_EXIST
          ? error
          : new TransportError("no broker has topic " + topic + ", and none creates topics by itself: create it first", error);
    }
  }

  private Known known(String topic) throws LaneError {
    Topic key = new Topic(topic, cluster);
    Known known = KNOWN.get(key);
    if (known == null || System.currentTimeMillis() - known.askedMs >= pulls.discoveryMs()) {
      known = asked(topic);
      KNOWN.put(key, known);
    }
    seen.add(topic);
    return known;
  }

  void forget(String topic) {
    KNOWN.remove(new Topic(topic, cluster));
    KNOWN.remove(new Topic(TEMPLATE_TOPIC, cluster)); // those it would have, too
  }

  private Known asked(String topic) throws LaneError {
    LaneError last = new TransportError("there is no name server", null);
    for (String address : cluster.nameservers()) {
      try {
        return asked(topic, address);
      } catch (LaneError error) {
        if (!error.mayRetryLater()) {
          throw error;
        }
        Connections.drop(address, cluster);
        last = error;
      }
    }
    throw last;
  }

  private Known asked(String topic, String address) throws LaneError {
    Connection connection = Connections.take(address, cluster, pulls);
    Frame.Response response;
    try {
      TreeMap<String, String> fields = new TreeMap<>(Map.of("topic", topic, "acceptStandardJsonOnly", "true"));
      response = connection.receive(connection.send(Frame.GET_ROUTE, fields));
    } catch (TransportError error) {
      connection.close();
      throw error;
    }
    Connections.giveBack(connection, cluster);
    if (response.code() != 0) {
      throw new BrokerError(response.code(), response.remark());
    }
    return read(response.body());
  }

  private static Known read(byte[] body) throws TransportError {
    Map<String, TreeMap<Long, String>> found = new HashMap<>();
    List<Share> shares = new ArrayList<>();
    List<Share> ordered = new ArrayList<>();
    try {
      JsonNode root = JSON.readTree(body);
      for (JsonNode share : root.path("queueDatas")) {
        shares.add(new Share(share.path("brokerName").asText(), share.path("readQueueNums").asInt(),
            share.path("writeQueueNums").asInt(), share.path("perm").asInt()));
      }
      for (String share : root.path("orderTopicConf").asText("").split(";")) { // broker-a:4;broker-b:4
        int colon = share.lastIndexOf(':');
        if (colon > 0) {
          int count = Integer.parseInt(share.substring(colon + 1).strip());
          ordered.add(new Share(share.substring(0, colon).strip(), count, count, READ | WRITE));
        }
      }
      for (JsonNode broker : root.path("brokerDatas")) {
        TreeMap<Long, String> addresses = new TreeMap<>();
        broker.path("brokerAddrs").fields().forEachRemaining(
            each -> addresses.put(Long.parseLong(each.getKey()), each.getValue().asText()));
        found.put(broker.path("brokerName").asText(), addresses);
      }
    } catch (IOException | RuntimeException error) {
      throw new TransportError("a route cannot be read: " + error.getMessage(), error);
    }
    return new Known(found, shares, ordered, System.currentTimeMillis());
  }
}
