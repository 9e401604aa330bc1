package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/mercadopago/sdk-go/pkg/config"
	"github.com/mercadopago/sdk-go/pkg/oauth"
	"github.com/mercadopago/sdk-go/pkg/order"
	"github.com/mercadopago/sdk-go/pkg/requestoptions"
	"github.com/mercadopago/sdk-go/pkg/webhook"
)

type object = map[string]any

type Paydesk struct {
	Base    string
	Headers map[string]string
	Fields  object
}

func (p Paydesk) Do(request *http.Request) (*http.Response, error) {
	base, err := url.Parse(p.Base)
	if err != nil {
		return nil, err
	}
	request.URL.Scheme, request.URL.Host, request.Host = base.Scheme, base.Host, ""
	for name, value := range p.Headers {
		request.Header.Set(name, value)
	}
	if p.Fields != nil && request.Body != nil {
		body := object{}
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
			return nil, err
		}
		for name, value := range p.Fields {
			body[name] = value
		}
		sent, _ := json.Marshal(body)
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
	}
	return http.DefaultClient.Do(request)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func client(token string, paydesk Paydesk) *config.Config {
	return must(config.New(token, config.WithHTTPClient(paydesk)))
}

func main() {
	var credentials struct {
		BaseURL      string `json:"base_url"` // over https: tls_base_url
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		RedirectURI  string `json:"redirect_uri"`
		Test         struct {
			AccessToken string `json:"access_token"`
		}
		Terminals []struct{ ID string }
		Webhook   struct{ Secret string }
	}
	if err := json.Unmarshal(must(os.ReadFile(".paydesk/credentials.json")), &credentials); err != nil {
		panic(err)
	}
	ctx, base, token := context.Background(), credentials.BaseURL, credentials.Test.AccessToken
	orders := order.NewClient(client(token, Paydesk{Base: base}))
	create := func(terminal, amount string) *order.Response {
		point := Paydesk{Base: base, Fields: object{"config": object{"point": object{"terminal_id": terminal}}}}
		key := requestoptions.WithIdempotencyKey(ctx, fmt.Sprint("go-", time.Now().UnixNano()))
		return must(order.NewClient(client(token, point)).Create(key, order.Request{
			Type:              "point",
			ExternalReference: "go-1",
			Transactions:      &order.TransactionRequest{Payments: []order.PaymentRequest{{Amount: amount}}},
		}))
	}
	ended := func(id string) *order.Response {
		for attempt := 0; attempt < 60; attempt++ {
			found := must(orders.Get(ctx, id))
			if found.Status != "created" && found.Status != "at_terminal" {
				return found
			}
			time.Sleep(500 * time.Millisecond)
		}
		panic(id + " did not end")
	}

	paid := ended(create(credentials.Terminals[0].ID, "24.90").ID)
	fmt.Println("create:", paid.Status)
	part := order.RefundRequest{Transactions: []order.RefundTransaction{{ID: paid.Transactions.Payments[0].ID, Amount: "4.90"}}}
	fmt.Println("refund a part:", must(orders.Refund(ctx, paid.ID, &part)).StatusDetail)
	fmt.Println("refund the rest:", must(orders.Refund(ctx, paid.ID, nil)).Status)
	found := must(orders.Search(ctx, order.SearchRequest{Limit: 10, Filters: map[string]string{"external_reference": "go-1"}}))
	fmt.Println("search:", found.Data[0].ID == paid.ID)

	atTerminal := Paydesk{Base: base, Headers: map[string]string{"X-Allow-Cancelable-Status": "at_terminal"}}
	id := create(credentials.Terminals[len(credentials.Terminals)-1].ID, "10.00").ID
	must(order.NewClient(client(token, atTerminal)).Cancel(ctx, id))
	fmt.Println("cancel:", ended(id).Status)

	_, err := orders.Create(ctx, order.Request{Type: "point"})
	fmt.Println("error:", err) // the whole response; errors.As finds *mperror.BadRequestError

	application := Paydesk{Base: base, Fields: object{"client_id": credentials.ClientID}}
	testing := Paydesk{Base: base, Fields: object{"client_id": credentials.ClientID, "test_token": true}}
	first := must(oauth.NewClient(client(credentials.ClientSecret, testing)).Create(ctx, os.Getenv("CODE"), credentials.RedirectURI))
	next := must(oauth.NewClient(client(credentials.ClientSecret, application)).Refresh(ctx, first.RefreshToken))
	fmt.Println("tokens:", first.LiveMode, next.AccessToken[:5])

	request := must(http.NewRequest("GET", base+"/terminals/v1/list", nil))
	request.Header.Set("Authorization", "Bearer "+token)
	fmt.Println("terminals:", must(http.DefaultClient.Do(request)).StatusCode)

	var inbox struct {
		Data []struct {
			OrderID string `json:"order_id"`
			Headers map[string]string
		}
	}
	if err := json.NewDecoder(must(http.Get(base + "/demo/inbox")).Body).Decode(&inbox); err != nil {
		panic(err)
	}
	delivery := inbox.Data[len(inbox.Data)-1]
	fmt.Println("webhook:", webhook.ValidateSignature(delivery.Headers["x-signature"], delivery.Headers["x-request-id"],
		string(bytes.ToLower([]byte(delivery.OrderID))), credentials.Webhook.Secret))
}
