using System; using System.Collections.Generic; using System.IO; using System.Linq; using System.Net.Http;
using System.Text; using System.Threading; using System.Threading.Tasks;
using MercadoPago.Client; using MercadoPago.Client.OAuth; using MercadoPago.Client.Order; using MercadoPago.Config;
using MercadoPago.Error; using MercadoPago.Http; using MercadoPago.Resource.Order; using MercadoPago.Webhook;
using Newtonsoft.Json.Linq;

class PointConfig : OrderConfigRequest { public PointSettings Point { get; set; } }
class PointSettings { public string TerminalId { get; set; } }

class Paydesk : DelegatingHandler
{
    readonly Uri address; readonly JObject fields;

    public Paydesk(string address, JObject fields = null) : base(new HttpClientHandler())
    {
        this.address = new Uri(address); this.fields = fields;
    }

    public static DefaultHttpClient Client(string address, JObject fields = null) =>
        new DefaultHttpClient(new HttpClient(new Paydesk(address, fields)));

    protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellation)
    {
        request.RequestUri = new Uri(address, request.RequestUri.PathAndQuery);
        if (fields != null && request.Content != null)
        {
            var body = JObject.Parse(await request.Content.ReadAsStringAsync());
            foreach (var field in fields) body[field.Key] = field.Value;
            request.Content = new StringContent(body.ToString(), Encoding.UTF8, "application/json");
        }
        return await base.SendAsync(request, cancellation);
    }
}

class Payments
{
    static readonly JObject Credentials = JObject.Parse(File.ReadAllText(".paydesk/credentials.json"));
    static readonly string Address = (string)Credentials["base_url"]; // over https: tls_base_url
    static OrderClient Orders;

    static RequestOptions With(string name, string value)
    {
        var options = new RequestOptions(); options.CustomHeaders[name] = value; return options;
    }

    static RequestOptions NewKey() => With("X-Idempotency-Key", Guid.NewGuid().ToString());

    static Order Create(JToken terminal, string amount) => Orders.Create(new OrderCreateRequest
    {
        Type = "point",
        ExternalReference = "net-1",
        Config = new PointConfig { Point = new PointSettings { TerminalId = (string)terminal["id"] } },
        Transactions = new OrderTransactionRequest
        {
            Payments = new List<OrderPaymentRequest> { new OrderPaymentRequest { Amount = amount } },
        },
    }, NewKey());

    static Order Ended(string id)
    {
        for (var attempt = 0; attempt < 60; attempt++, Thread.Sleep(500))
        {
            var order = Orders.Get(id);
            if (order.Status != "created" && order.Status != "at_terminal") return order;
        }
        throw new TimeoutException(id);
    }

    static void Main()
    {
        MercadoPagoConfig.AccessToken = (string)Credentials["test"]["access_token"];
        MercadoPagoConfig.HttpClient = Paydesk.Client(Address);
        Orders = new OrderClient();

        var order = Ended(Create(Credentials["terminals"].First, "24.90").Id);
        Console.WriteLine("create: " + order.Status);
        var part = new OrderRefundPaymentRequest
        {
            Transactions = new List<OrderRefundTransactionRequest>
            {
                new OrderRefundTransactionRequest { Id = order.Transactions.Payments[0].Id, Amount = "4.90" },
            },
        };
        Console.WriteLine("refund a part: " + Orders.Refund(order.Id, part, NewKey()).StatusDetail);
        Console.WriteLine("refund the rest: " + Orders.Refund(order.Id).Status);
        var found = Orders.Search(new OrderSearchRequest { ExternalReference = "net-1", Page = 1, PageSize = 10 });
        Console.WriteLine("search: " + (found.Data[0].Id == order.Id));

        var id = Create(Credentials["terminals"].Last, "10.00").Id;
        Orders.Cancel(id, With("X-Allow-Cancelable-Status", "at_terminal"));
        Console.WriteLine("cancel: " + Ended(id).Status);
        try { Orders.Create(new OrderCreateRequest { Type = "point" }); }
        catch (MercadoPagoApiException error) { Console.WriteLine("error: " + error.Message); }

        string clientId = (string)Credentials["client_id"], secret = (string)Credentials["client_secret"];
        var testing = new OAuthClient(Paydesk.Client(Address, new JObject { ["test_token"] = true }));
        var first = testing.CreateOAuthCredential(
            Environment.GetEnvironmentVariable("CODE"), clientId, secret, (string)Credentials["redirect_uri"]);
        var application = new OAuthClient(Paydesk.Client(Address, new JObject { ["client_id"] = clientId }));
        var next = application.RefreshOAuthCredential(first.RefreshToken, new RequestOptions { AccessToken = secret });
        Console.WriteLine("tokens: " + next.AccessToken.Substring(0, 5));

        var raw = new HttpClient();
        raw.DefaultRequestHeaders.Add("Authorization", "Bearer " + MercadoPagoConfig.AccessToken);
        var list = JObject.Parse(raw.GetStringAsync(Address + "/terminals/v1/list").Result);
        Console.WriteLine("terminals: " + list["data"]["terminals"].Count());
        var delivery = JObject.Parse(raw.GetStringAsync(Address + "/demo/inbox").Result)["data"].Last;
        WebhookSignatureValidator.Validate((string)delivery["headers"]["x-signature"],
            (string)delivery["headers"]["x-request-id"], ((string)delivery["order_id"]).ToLowerInvariant(),
            (string)Credentials["webhook"]["secret"], TimeSpan.FromMinutes(5));
        Console.WriteLine("webhook: valid");
    }
}
