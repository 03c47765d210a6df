package pyromq.lane;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** TLS from the first byte, with the meaning that the options tls, tlsCa, tlsVerify and tlsHostname have in Python. */
final class TlsSockets {
  private static final Map<PullPlan.Tls, SSLContext> CONTEXTS = new ConcurrentHashMap<>();

  private TlsSockets() {}

  static Socket over(Socket plain, String host, int port, PullPlan.Tls tls) throws IOException {
    String name = tls.hostname().isEmpty() ? host : tls.hostname();
    SSLSocket socket = (SSLSocket) context(tls).getSocketFactory().createSocket(plain, name, port, true);
    if (tls.verify() && tls.checkHostname()) {
      SSLParameters parameters = socket.getSSLParameters();
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
      socket.setSSLParameters(parameters);
    }
    socket.startHandshake();
    return socket;
  }

  private static SSLContext context(PullPlan.Tls tls) throws ConfigError {
    SSLContext known = CONTEXTS.get(tls);
    if (known == null) {
      try {
        known = SSLContext.getInstance("TLS");
        known.init(null, trust(tls), null);
      } catch (IOException | GeneralSecurityException error) {
        throw new ConfigError("certificates cannot be used: " + error.getMessage(), List.of(tls.caFile()), error);
      }
      CONTEXTS.put(tls, known);
    }
    return known;
  }

  private static TrustManager[] trust(PullPlan.Tls tls) throws IOException, GeneralSecurityException {
    if (!tls.verify()) {
      return new TrustManager[] {new Anybody()};
    }
    KeyStore store = null; // the system's
    if (!tls.caFile().isEmpty()) {
      store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      int number = 0;
      try (InputStream file = new FileInputStream(tls.caFile())) {
        for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
          store.setCertificateEntry("ca-" + number++, each);
        }
      }
    }
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }

  /** Trusts every server, where the user says so with tlsVerify=false. */
  private static final class Anybody implements X509TrustManager {
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }
}
