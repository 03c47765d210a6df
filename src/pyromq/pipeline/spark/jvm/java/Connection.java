package pyromq.lane;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.TaskContext;

/** A connection to one server, of one task at a time. Requests may be sent ahead; each response is asked for by its id. */
final class Connection implements Closeable {
  private static final int BUFFER_BYTES = 1 << 16;
  private static final int JOINED_BYTES_MAX = 1 << 14; // a request below that is written at once
  private static final ByteText NO_BODY = new ByteText(0);

  final String address;
  long lastUsedMs = System.currentTimeMillis();
  private final PullPlan.Cluster cluster;
  private final Socket socket;
  private final BufferedInputStream buffer;
  private final DataInputStream in;
  private final int requestMs;
  private final Map<Integer, Frame.Response> early = new HashMap<>(); // responses that came before those asked for
  private final Set<Integer> awaited = new HashSet<>();
  private final Set<Integer> forgotten = new HashSet<>(); // their responses are thrown away when they come
  private int lastId;

  private Connection(String address, PullPlan.Cluster cluster, Socket socket, int requestMs) throws IOException {
    this.requestMs = requestMs;
    this.address = address;
    this.cluster = cluster;
    this.socket = socket;
    this.buffer = new BufferedInputStream(socket.getInputStream(), BUFFER_BYTES);
    this.in = new DataInputStream(buffer);
  }

  static Connection open(String address, PullPlan.Cluster cluster, PullPlan.Pulls pulls) throws LaneError {
    int colon = address.lastIndexOf(':');
    Socket socket = new Socket();
    try {
      String host = address.substring(0, colon).replaceAll("^\\[|\\]$", "");
      int port = Integer.parseInt(address.substring(colon + 1));
      socket.setTcpNoDelay(true);
      socket.connect(new InetSocketAddress(host, port), pulls.connectMs());
      if (socket.getLocalSocketAddress().equals(socket.getRemoteSocketAddress())) {
        throw new IOException("no server listens there"); // TCP connects such a socket to itself
      }
      socket.setSoTimeout(pulls.requestMs());
      Socket used = cluster.tls() == null ? socket : TlsSockets.over(socket, host, port, cluster.tls());
      return new Connection(address, cluster, used, pulls.requestMs());
    } catch (ConfigError error) {
      closeQuietly(socket);
      throw error;
    } catch (IOException | RuntimeException error) {
      closeQuietly(socket);
      throw new TransportError("no connection to " + address + ": " + error.getMessage(), error);
    }
  }

  /** Sends a request; returns the id by which its response is asked for. */
  int send(int code, TreeMap<String, String> fields) throws TransportError {
    return send(code, fields, NO_BODY);
  }

  int send(int code, TreeMap<String, String> fields, ByteText body) throws TransportError {
    int id = ++lastId;
    try {
      byte[] head = Frame.request(code, id, fields, body, cluster.credentials());
      if (head.length + body.size <= JOINED_BYTES_MAX) {
        byte[] whole = Arrays.copyOf(head, head.length + body.size);
        System.arraycopy(body.data, 0, whole, head.length, body.size);
        socket.getOutputStream().write(whole);
      } else {
        socket.getOutputStream().write(head);
        socket.getOutputStream().write(body.data, 0, body.size);
      }
    } catch (IOException error) {
      throw new TransportError("connection to " + address + " lost: " + error.getMessage(), error);
    }
    awaited.add(id);
    return id;
  }

  /** Waits until there is something to receive; false if there is nothing within that time. */
  boolean hasSomething(long waitMs) throws TransportError {
    checkTask();
    try {
      socket.setSoTimeout((int) Math.max(1, waitMs));
      buffer.mark(1);
      boolean isOpen = buffer.read() >= 0;
      if (!isOpen) {
        throw new IOException("it was closed");
      }
      buffer.reset();
      socket.setSoTimeout(requestMs);
      return true;
    } catch (SocketTimeoutException error) {
      return false;
    } catch (IOException error) {
      throw new TransportError("connection to " + address + " lost: " + error.getMessage(), error);
    }
  }

  Frame.Response receive(int id) throws TransportError {
    Frame.Response found = early.remove(id);
    while (found == null) {
      Frame.Response next = read();
      if (!next.isResponse()) {
        continue; // a request of the server: we are no consumer that it could tell something
      }
      if (next.opaque() == id) {
        found = next;
      } else if (awaited.contains(next.opaque())) {
        early.put(next.opaque(), next);
      } else {
        forgotten.remove(next.opaque());
      }
    }
    awaited.remove(id);
    lastUsedMs = System.currentTimeMillis();
    return found;
  }

  /** A response that will not be asked for. */
  void forget(int id) {
    if (awaited.remove(id) && early.remove(id) == null) {
      forgotten.add(id);
    }
  }

  /** Whether another task may use it: nothing is on its way. */
  boolean isFree() {
    return awaited.isEmpty() && forgotten.isEmpty();
  }

  private Frame.Response read() throws TransportError {
    checkTask();
    try {
      return Frame.read(in);
    } catch (IOException error) {
      throw new TransportError("no response of " + address + ": " + error.getMessage(), error);
    }
  }

  private static void checkTask() {
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.killTaskIfInterrupted();
    }
  }

  @Override
  public void close() {
    closeQuietly(socket);
  }

  private static void closeQuietly(Socket socket) {
    try {
      socket.close();
    } catch (IOException error) {
      // it is of no use any more, closed or not
    }
  }
}
