import com.google.gson.*;
import com.mercadopago.MercadoPagoConfig;
import com.mercadopago.client.MercadoPagoClient;
import com.mercadopago.client.oauth.OauthClient;
import com.mercadopago.client.order.*;
import com.mercadopago.core.MPRequestOptions;
import com.mercadopago.exceptions.*;
import com.mercadopago.net.*;
import com.mercadopago.resources.order.Order;
import com.mercadopago.webhook.WebhookSignatureValidator;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.http.impl.client.HttpClients;

class Paydesk extends MPDefaultHttpClient {
  private final String base;
  private final JsonObject fields;

  Paydesk(String base, JsonObject fields) {
    super(HttpClients.createSystem());
    this.base = base;
    this.fields = fields;
  }

  @Override
  public MPResponse send(MPRequest request) throws MPException, MPApiException {
    Map<String, String> headers = new HashMap<>(request.getHeaders());
    if (headers.containsKey("x-idempotency-key")) headers.remove("X-Idempotency-Key");
    JsonObject payload = request.getPayload();
    if (payload != null) fields.entrySet().forEach(field -> payload.add(field.getKey(), field.getValue()));
    return super.send(MPRequest.builder().uri(request.getUri().replace(MercadoPagoConfig.BASE_URL, base))
        .method(request.getMethod()).headers(headers).payload(payload).accessToken(request.getAccessToken())
        .connectionTimeout(request.getConnectionTimeout()).socketTimeout(request.getSocketTimeout())
        .connectionRequestTimeout(request.getConnectionRequestTimeout()).build());
  }
}

class Raw extends MercadoPagoClient {
  Raw() {
    super(MercadoPagoConfig.getHttpClient());
  }

  JsonObject call(HttpMethod method, String path, JsonObject body) throws MPException, MPApiException {
    return JsonParser.parseString(send(path, method, body, null, null).getContent()).getAsJsonObject();
  }
}

public class Payments {
  static final OrderClient ORDERS;
  static final JsonObject CREDENTIALS;

  static {
    try {
      CREDENTIALS = JsonParser.parseString(Files.readString(Path.of(".paydesk/credentials.json"))).getAsJsonObject();
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
    MercadoPagoConfig.setAccessToken(CREDENTIALS.getAsJsonObject("test").get("access_token").getAsString());
    MercadoPagoConfig.setHttpClient(new Paydesk(text("base_url"), new JsonObject())); // over https: tls_base_url
    ORDERS = new OrderClient();
  }

  static String text(String name) {
    return CREDENTIALS.get(name).getAsString();
  }

  static MPRequestOptions with(String name, String value) {
    return MPRequestOptions.builder().customHeaders(new HashMap<>(Map.of(name, value))).build();
  }

  static Order create(int terminal, String amount) throws MPException, MPApiException {
    String id = CREDENTIALS.getAsJsonArray("terminals").get(terminal).getAsJsonObject().get("id").getAsString();
    return ORDERS.create(OrderCreateRequest.builder().type("point").externalReference("java-1")
        .config(OrderConfigRequest.builder().point(OrderPointConfig.builder().terminalId(id).build()).build())
        .transactions(OrderTransactionRequest.builder()
            .payments(List.of(OrderPaymentRequest.builder().amount(amount).build())).build())
        .build(), with("X-Idempotency-Key", UUID.randomUUID().toString()));
  }

  static Order ended(String id) throws Exception {
    for (int attempt = 0; attempt < 60; attempt++, Thread.sleep(500)) {
      Order order = ORDERS.get(id);
      if (!List.of("created", "at_terminal").contains(order.getStatus())) return order;
    }
    throw new IllegalStateException(id + " did not end");
  }

  public static void main(String[] arguments) throws Exception {
    Order order = ended(create(0, "24.90").getId());
    System.out.println("create: " + order.getStatus());
    String payment = order.getTransactions().getPayments().get(0).getId();
    OrderRefundRequest part = OrderRefundRequest.builder()
        .transactions(List.of(OrderRefundPaymentRequest.builder().id(payment).amount("4.90").build())).build();
    System.out.println("refund a part: " + ORDERS.refund(order.getId(), part).getStatusDetail());
    System.out.println("refund the rest: " + ORDERS.refund(order.getId()).getStatus());
    MPSearchRequest filter = MPSearchRequest.builder().limit(10).offset(0)
        .filters(new HashMap<>(Map.of("external_reference", "java-1"))).build();
    System.out.println("search: " + ORDERS.search(filter).getData().get(0).getId().equals(order.getId()));

    String id = create(CREDENTIALS.getAsJsonArray("terminals").size() - 1, "10.00").getId();
    ORDERS.cancel(id, with("X-Allow-Cancelable-Status", "at_terminal"));
    System.out.println("cancel: " + ended(id).getStatus());
    try {
      ORDERS.create(OrderCreateRequest.builder().type("point").build());
    } catch (MPApiException error) {
      System.out.println("error: " + error.getStatusCode() + " " + error.getApiResponse().getContent());
    }

    JsonObject application = new JsonObject();
    application.add("client_id", CREDENTIALS.get("client_id"));
    JsonObject testing = application.deepCopy();
    testing.addProperty("test_token", true);
    MPRequestOptions secret = MPRequestOptions.builder().accessToken(text("client_secret")).build();
    var first = new OauthClient(new Paydesk(text("base_url"), testing))
        .createCredential(System.getenv("CODE"), text("redirect_uri"), secret);
    var next = new OauthClient(new Paydesk(text("base_url"), application))
        .refreshCredential(first.getRefreshToken(), secret);
    System.out.println("tokens: " + next.getAccessToken().substring(0, 5));

    Raw raw = new Raw();
    JsonObject list = raw.call(HttpMethod.GET, "/terminals/v1/list", null);
    System.out.println("terminals: " + list.getAsJsonObject("data").getAsJsonArray("terminals").size());
    JsonArray inbox = raw.call(HttpMethod.GET, "/demo/inbox", null).getAsJsonArray("data");
    JsonObject delivery = inbox.get(inbox.size() - 1).getAsJsonObject();
    JsonObject headers = delivery.getAsJsonObject("headers");
    WebhookSignatureValidator.validate(headers.get("x-signature").getAsString(),
        headers.get("x-request-id").getAsString(), delivery.get("order_id").getAsString().toLowerCase(),
        CREDENTIALS.getAsJsonObject("webhook").get("secret").getAsString(), Duration.ofMinutes(5));
    System.out.println("webhook: valid");
  }
}
