package pyromq.lane;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Frames of the remoting protocol, big-endian. Requests are written with a JSON header, responses are read in both forms.
 *
 * <pre>
 *   4 bytes length of what follows · 1 byte form (0 JSON, 1 binary) · 3 bytes length of the header · header · body
 *   binary header: code (2) language (1) version (2) opaque (4) flag (4) remark (4 + n) fields (4 + m)
 *   each field:    length (2) name · length (4) value
 * </pre>
 */
final class Frame {
  static final int PULL_MESSAGE = 11;
  static final int GET_MAX_OFFSET = 30;
  static final int GET_MIN_OFFSET = 31;
  static final int GET_ROUTE = 105;
  static final int SEND_MESSAGE_V2 = 310;
  static final int SEND_BATCH_MESSAGE = 320;
  private static final int VERSION = 479;
  private static final int FRAME_BYTES_MAX = 64 << 20;
  private static final ObjectMapper JSON = new ObjectMapper();

  private Frame() {}

  /** A response: what it says of itself, and its body as it came. */
  record Response(int code, int opaque, boolean isResponse, String remark, Map<String, String> fields, byte[] body) {
    long number(String name) throws TransportError {
      try {
        return Long.parseLong(fields.getOrDefault(name, ""));
      } catch (NumberFormatException error) {
        throw new TransportError("a response has no number " + name + ": " + fields, error);
      }
    }
  }

  /** A request up to its body, signed if there are credentials. */
  static byte[] request(int code, int opaque, TreeMap<String, String> fields, ByteText body, PullPlan.Credentials credentials)
      throws IOException {
    ObjectNode header = JSON.createObjectNode();
    header.put("code", code).put("flag", 0).put("language", "JAVA").put("opaque", opaque).put("version", VERSION);
    ObjectNode ext = header.putObject("extFields");
    (credentials == null ? fields : signed(fields, body, credentials)).forEach(ext::put);
    byte[] text = JSON.writeValueAsBytes(header);
    return ByteBuffer.allocate(8 + text.length).putInt(4 + text.length + body.size).putInt(text.length).put(text).array();
  }

  private static TreeMap<String, String> signed(TreeMap<String, String> fields, ByteText body, PullPlan.Credentials credentials) {
    TreeMap<String, String> found = new TreeMap<>(fields);
    found.put("AccessKey", credentials.accessKey());
    if (!credentials.securityToken().isEmpty()) {
      found.put("SecurityToken", credentials.securityToken());
    }
    try {
      Mac mac = Mac.getInstance("HmacSHA1");
      mac.init(new SecretKeySpec(credentials.secretKey().getBytes(StandardCharsets.UTF_8), "HmacSHA1"));
      found.values().forEach(value -> mac.update(value.getBytes(StandardCharsets.UTF_8)));
      mac.update(body.data, 0, body.size);
      found.put("Signature", Base64.getEncoder().encodeToString(mac.doFinal()));
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException("requests cannot be signed: " + error, error);
    }
    return found;
  }

  /** Reads the next frame. */
  static Response read(DataInputStream from) throws IOException {
    int length = from.readInt();
    int word = from.readInt();
    int headerBytes = word & 0xFFFFFF;
    int bodyBytes = length - 4 - headerBytes;
    if (length < 4 || length > FRAME_BYTES_MAX || bodyBytes < 0) {
      throw new IOException("a frame of " + length + " bytes with a header of " + headerBytes + " is none");
    }
    byte[] header = new byte[headerBytes];
    from.readFully(header);
    byte[] body = new byte[bodyBytes];
    from.readFully(body);
    return word >>> 24 == 0 ? fromJson(header, body) : fromBinary(ByteBuffer.wrap(header), body);
  }

  private static Response fromJson(byte[] header, byte[] body) throws IOException {
    JsonNode root = JSON.readTree(header);
    Map<String, String> fields = new HashMap<>();
    root.path("extFields").fields().forEachRemaining(each -> fields.put(each.getKey(), each.getValue().asText()));
    boolean isResponse = (root.path("flag").asInt() & 1) != 0;
    return new Response(
        root.path("code").asInt(), root.path("opaque").asInt(), isResponse, root.path("remark").asText(""), fields, body);
  }

  private static Response fromBinary(ByteBuffer header, byte[] body) throws IOException {
    try {
      int code = header.getShort();
      header.get();
      header.getShort();
      int opaque = header.getInt();
      boolean isResponse = (header.getInt() & 1) != 0;
      String remark = text(header, header.getInt());
      Map<String, String> fields = new HashMap<>();
      int end = header.getInt() + header.position();
      while (header.position() < end) {
        String name = text(header, header.getShort());
        fields.put(name, text(header, header.getInt()));
      }
      return new Response(code, opaque, isResponse, remark, fields, body);
    } catch (RuntimeException error) { // it ends too early, or a length is negative
      throw new IOException("a binary header cannot be read: " + error, error);
    }
  }

  private static String text(ByteBuffer from, int length) {
    byte[] found = new byte[length];
    from.get(found);
    return new String(found, StandardCharsets.UTF_8);
  }
}
