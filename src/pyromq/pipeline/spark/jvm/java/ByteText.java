package pyromq.lane;

import java.util.Arrays;

/** Bytes that grow: the body of a request, or the properties of a row. */
final class ByteText {
  byte[] data;
  int size;

  ByteText(int room) {
    data = new byte[room];
  }

  ByteText add(byte[] more) {
    return add(more, 0, more.length);
  }

  ByteText add(byte[] more, int start, int length) {
    System.arraycopy(more, start, room(length).data, size, length);
    size += length;
    return this;
  }

  ByteText add(int one) {
    room(1).data[size++] = (byte) one;
    return this;
  }

  ByteText addShort(int value) {
    return add(value >>> 8).add(value);
  }

  ByteText addInt(int value) {
    return addShort(value >>> 16).addShort(value);
  }

  private ByteText room(int bytes) {
    if (size + bytes > data.length) {
      data = Arrays.copyOf(data, Math.max(size + bytes, 2 * data.length));
    }
    return this;
  }
}
