package pyromq.lane;

import org.apache.spark.unsafe.types.UTF8String;

/** Addresses with ports as records have them, as text: 10.0.0.1:10911 or [2001:db8::1]:10911. */
final class Hosts {
  private long lastV4 = -1; // there are few different ones
  private UTF8String lastText;

  UTF8String text(StoredRecords records, int place, boolean isV6) {
    if (isV6) {
      return UTF8String.fromString("[" + v6(records, place) + "]:" + records.intAt(place + 16));
    }
    long word = records.longAt(place);
    if (lastText == null || word != lastV4) {
      byte[] data = records.data;
      lastV4 = word;
      lastText = UTF8String.fromString((data[place] & 255) + "." + (data[place + 1] & 255) + "." + (data[place + 2] & 255)
          + "." + (data[place + 3] & 255) + ":" + records.intAt(place + 4));
    }
    return lastText;
  }

  /** Groups of hexadecimal digits, the first of the longest runs of zeros left out. */
  private static String v6(StoredRecords records, int place) {
    int[] groups = new int[8];
    for (int number = 0; number < 8; number++) {
      groups[number] = records.intAt(place + 2 * number - (number == 7 ? 2 : 0)) >>> (number == 7 ? 0 : 16) & 0xFFFF;
    }
    int runStart = -1;
    int runLength = 1; // a single zero is written
    for (int start = 0; start < 8; start++) {
      int end = start;
      while (end < 8 && groups[end] == 0) {
        end++;
      }
      if (end - start > runLength) {
        runStart = start;
        runLength = end - start;
      }
    }
    StringBuilder text = new StringBuilder();
    for (int number = 0; number < 8; number++) {
      if (number == runStart) {
        text.append("::");
        number += runLength - 1;
      } else {
        text.append(text.length() == 0 || text.charAt(text.length() - 1) == ':' ? "" : ":").append(Integer.toHexString(groups[number]));
      }
    }
    return text.toString();
  }
}
