package pyromq.lane;

import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import net.jpountz.lz4.LZ4FrameInputStream;

/** Bodies as their producers knew them: bit 0 of sysFlag says that one is compressed, bits 8 to 10 how. */
final class Bodies {
  static final int COMPRESSED = 0x1;
  private static final int COMPRESSION_MASK = 0x700;
  private static final int LZ4 = 0x100;
  private static final int ZSTD = 0x200;
  private static final int ZLIB = 0x300;
  private static final int INFLATED_BYTES_MAX = 64 << 20;
  private static final int ZSTD_WINDOW_LOG_MAX = 25;
  private static final int STEP_BYTES = 1 << 16;

  private Bodies() {}

  /** Decompresses a body; the outcome is bounded while it grows, since a few bytes may stand for gigabytes. */
  static byte[] decompressed(byte[] data, int start, int end, int sysFlag) throws IOException {
    int kind = sysFlag & COMPRESSION_MASK;
    if (kind == 0 || kind == ZLIB) {
      return inflated(data, start, end);
    }
    if (start == end) {
      throw new IOException("the compressed bytes end too early");
    }
    InputStream packed = new ByteArrayInputStream(data, start, end - start);
    if (kind == LZ4) {
      return all(new LZ4FrameInputStream(packed));
    }
    if (kind == ZSTD) {
      ZstdInputStreamNoFinalizer stream = new ZstdInputStreamNoFinalizer(packed);
      stream.setLongMax(ZSTD_WINDOW_LOG_MAX);
      return all(stream);
    }
    throw new IOException(String.format("no compression has the flag 0x%x", kind));
  }

  private static byte[] all(InputStream stream) throws IOException {
    try (stream) {
      byte[] found = stream.readNBytes(INFLATED_BYTES_MAX + 1);
      return bounded(found, found.length);
    }
  }

  private static byte[] inflated(byte[] data, int start, int end) throws IOException {
    Inflater inflater = new Inflater();
    try {
      inflater.setInput(data, start, end - start);
      ByteArrayOutputStream out = new ByteArrayOutputStream(4 * (end - start));
      byte[] step = new byte[STEP_BYTES];
      while (!inflater.finished()) {
        int count = inflater.inflate(step);
        if (count == 0 && !inflater.finished() && (inflater.needsInput() || inflater.needsDictionary())) {
          throw new IOException("the compressed bytes end too early");
        }
        out.write(step, 0, count);
        bounded(null, out.size());
      }
      return out.toByteArray();
    } catch (DataFormatException error) {
      throw new IOException("the compressed bytes are damaged: " + error.getMessage(), error);
    } finally {
      inflater.end();
    }
  }

  private static byte[] bounded(byte[] found, int size) throws IOException {
    if (size > INFLATED_BYTES_MAX) {
      throw new IOException("it decompresses to more than " + INFLATED_BYTES_MAX + " bytes");
    }
    return found;
  }
}
