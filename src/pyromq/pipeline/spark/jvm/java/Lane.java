package pyromq.lane;

import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.package$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Which program reads the messages of a query, or sends its rows: Python workers, or the JVM itself. */
public enum Lane {
  PYTHON,
  JVM;

  /** Tells the Python source that the plan is for us; users do not give it. */
  static final String MARK = "__lane";

  private static final String OPTION = "lane";
  private static final String SETTING = "spark.pyromq.lane"; // of a session, for queries without the option
  private static final String DEFAULT = isTried(package$.MODULE$.SPARK_VERSION()) ? "auto" : "python";
  private static final List<String> FOR_PYTHON = List.of("payload", "schema", "storepath", "tlscertificate", "tlskey");
  private static final List<String> WRITTEN_BY_PYTHON = List.of("payload", "schema", "tlscertificate", "tlskey");

  /**
   * The lane of a query with these options. A lane that is asked for and cannot be had is left to Python too, which
   * refuses it in words.
   */
  public static Lane of(CaseInsensitiveStringMap options) {
    boolean hasTopic = isGiven(options, "topic") || isGiven(options, "topicPattern"); // a table may be made without any
    return hasTopic && isWanted(options) && isFree(options, FOR_PYTHON) ? JVM : PYTHON;
  }

  /** As {@code of}, for a write. */
  static Lane ofWrite(CaseInsensitiveStringMap options) {
    boolean isPlain =
        !said(options, "mode").equals("transactional")
            && !said(options, "badRows").contains("://") // folders elsewhere are Python's
            && (said(options, "namespace").isEmpty() || !said(options, "topic").isEmpty()); // names of other topics are Python's
    return isPlain && isWanted(options) && isFree(options, WRITTEN_BY_PYTHON) ? JVM : PYTHON;
  }

  private static boolean isWanted(CaseInsensitiveStringMap options) {
    String asked = options.getOrDefault(OPTION, SQLConf.get().getConfString(SETTING, DEFAULT)).strip().toLowerCase(Locale.ROOT);
    return !options.isEmpty() && (asked.equals("auto") || asked.equals("jvm"));
  }

  private static boolean isFree(CaseInsensitiveStringMap options, List<String> forPython) {
    return forPython.stream().noneMatch(name -> isGiven(options, name)) && !isListed(options) && !showsCertificate(options);
  }

  /** Whether a query of this Spark gets the lane without asking: not of one that is older than those that the tests run. */
  private static boolean isTried(String version) {
    String[] parts = version.split("\\D", 3);
    return Integer.parseInt(parts[0]) > 4 || Integer.parseInt(parts[0]) == 4 && Integer.parseInt(parts[1]) >= 3;
  }

  private static String said(CaseInsensitiveStringMap options, String name) {
    return options.getOrDefault(name, "").strip().toLowerCase(Locale.ROOT);
  }

  /** The options as the Python source gets them. */
  public CaseInsensitiveStringMap marked(CaseInsensitiveStringMap options) {
    return this == PYTHON ? options : marked(options, "jvm");
  }

  /** The options with what the Python source is to do for the lane. */
  static CaseInsensitiveStringMap marked(CaseInsensitiveStringMap options, String what) {
    Map<String, String> more = new HashMap<>(options.asCaseSensitiveMap());
    more.put(MARK, what);
    return new CaseInsensitiveStringMap(more);
  }

  private static boolean isGiven(CaseInsensitiveStringMap options, String name) {
    return options.containsKey(name) || options.containsKey("option." + name);
  }

  /** Whether the environment names a certificate of the client: only Python shows one. */
  private static boolean showsCertificate(CaseInsensitiveStringMap options) {
    String file = System.getenv("PYROMQ_TLS_CERTIFICATE");
    return file != null && !file.isBlank() && !said(options, "tls").equals("false");
  }

  /** Whether an address server lists the name servers: only Python asks one. */
  private static boolean isListed(CaseInsensitiveStringMap options) {
    String found = options.get("nameserver");
    for (String variable : List.of("PYROMQ_NAMESERVER", "NAMESRV_ADDR")) {
      found = found == null || found.isBlank() ? System.getenv(variable) : found;
    }
    return found != null && found.toLowerCase(Locale.ROOT).contains("http");
  }
}
