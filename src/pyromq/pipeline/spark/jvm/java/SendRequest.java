package pyromq.lane;

/** Rows on their way to one queue, or to any of a topic: a batch, or a message that travels alone. */
final class SendRequest {
  /** Where rows go; {@code queue} is null where any queue will do. */
  record Target(String topic, Routes.Queue queue) {}

  private static final int ITEM_OVERHEAD_BYTES = 22;

  final Target target;
  final ByteText body;
  final ByteText keys; // those of its rows, back to back; null where nobody asks for them
  int rows;
  String properties; // of a message that travels alone
  int flag;

  SendRequest(Target target, int room, boolean keepsKeys) {
    this.target = target;
    this.body = new ByteText(room);
    this.keys = keepsKeys ? new ByteText(RowKeys.KEY_BYTES) : null;
  }

  static int itemBytes(byte[] body, ByteText properties) {
    return ITEM_OVERHEAD_BYTES + body.length + properties.size;
  }

  /** Adds a row as an item of a batch (pyromq.wire.batch). */
  void add(byte[] row, ByteText itemProperties, byte[] key, int itemFlag) {
    body.addInt(itemBytes(row, itemProperties)).addInt(0).addInt(0).addInt(itemFlag).addInt(row.length);
    body.add(row).addShort(itemProperties.size).add(itemProperties.data, 0, itemProperties.size);
    count(key);
  }

  /** Makes it a message that travels alone. */
  void alone(byte[] row, String itsProperties, byte[] key, int itsFlag) {
    body.add(row);
    properties = itsProperties;
    flag = itsFlag;
    count(key);
  }

  private void count(byte[] key) {
    rows++;
    if (keys != null) {
      keys.add(key);
    }
  }

  boolean isBatch() {
    return properties == null;
  }
}
