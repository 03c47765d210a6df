package pyromq.lane;

import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Which program reads the messages of a query: Python workers, or the JVM itself. */
public enum Lane {
  PYTHON,
  JVM;

  /** Tells the Python source that the plan is for us; users do not give it. */
  static final String MARK = "__lane";

  private static final String OPTION = "lane";
  private static final String SETTING = "spark.pyromq.lane"; // of a session, for queries without the option
  private static final String DEFAULT = "python";
  private static final List<String> FOR_PYTHON = List.of("payload", "schema", "storepath", "tlscertificate", "tlskey");

  /**
   * The lane of a query with these options. A lane that is asked for and cannot be had is left to Python too, which
   * refuses it in words.
   */
  public static Lane of(CaseInsensitiveStringMap options) {
    String asked = options.getOrDefault(OPTION, SQLConf.get().getConfString(SETTING, DEFAULT)).strip().toLowerCase(Locale.ROOT);
    boolean isWanted = !options.isEmpty() && (asked.equals("auto") || asked.equals("jvm"));
    return isWanted && FOR_PYTHON.stream().noneMatch(name -> isGiven(options, name)) && !isListed(options) ? JVM : PYTHON;
  }

  /** The options as the Python source gets them. */
  public CaseInsensitiveStringMap marked(CaseInsensitiveStringMap options) {
    if (this == PYTHON) {
      return options;
    }
    Map<String, String> more = new HashMap<>(options.asCaseSensitiveMap());
    more.put(MARK, "jvm");
    return new CaseInsensitiveStringMap(more);
  }

  private static boolean isGiven(CaseInsensitiveStringMap options, String name) {
    return options.containsKey(name) || options.containsKey("option." + name);
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
