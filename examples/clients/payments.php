<?php
require 'vendor/autoload.php';

use MercadoPago\Client\Common\RequestOptions;
use MercadoPago\Client\OAuth\{OAuthClient, OAuthCreateRequest, OAuthRefreshRequest};
use MercadoPago\Client\Order\OrderClient;
use MercadoPago\Exceptions\MPApiException;
use MercadoPago\MercadoPagoConfig;
use MercadoPago\Net\{MPRequest, MPSearchRequest};
use MercadoPago\Webhook\WebhookSignatureValidator;

$credentials = json_decode(file_get_contents('.paydesk/credentials.json'), true);
$token = $credentials['test']['access_token'];
MercadoPagoConfig::$BASE_URL = $credentials['base_url']; // over https: tls_base_url
MercadoPagoConfig::setAccessToken($token);
$orders = new OrderClient();

$create = fn(string $terminal, string $amount) => $orders->create([
    'type' => 'point',
    'external_reference' => 'php-1',
    'transactions' => ['payments' => [['amount' => $amount]]],
    'config' => ['point' => ['terminal_id' => $terminal]],
], new RequestOptions(custom_headers: ['X-Idempotency-Key: ' . bin2hex(random_bytes(16))]));
$ended = function (string $id) use ($orders) {
    for ($attempt = 0; $attempt < 60; $attempt++, usleep(500000)) {
        $order = $orders->get($id);
        if (!in_array($order->status, ['created', 'at_terminal'])) return $order;
    }
};

$order = $ended($create($credentials['terminals'][0]['id'], '24.90')->id);
echo "create: $order->status\n";
$part = ['transactions' => [['id' => $order->transactions->payments[0]->id, 'amount' => '4.90']]];
echo 'refund a part: ', $orders->refund($order->id, $part)->status_detail, "\n";
echo 'refund the rest: ', $orders->refund($order->id)->status, "\n";
$found = $orders->search(new MPSearchRequest(10, 0, ['external_reference' => 'php-1']));
echo 'search: ', count($found->data), "\n";

$id = $create(end($credentials['terminals'])['id'], '10.00')->id;
$orders->cancel($id, new RequestOptions(custom_headers: ['X-Allow-Cancelable-Status: at_terminal']));
echo 'cancel: ', $ended($id)->status, "\n";

try {
    $orders->create(['type' => 'point']);
} catch (MPApiException $error) {
    $body = $error->getApiResponse()->getContent();
    echo 'error: ', $error->getStatusCode(), " {$body['error']} ", json_encode($body['errors']), "\n";
}

class TestTokenRequest extends OAuthCreateRequest { public bool $test_token = true; }

$request = new TestTokenRequest(); // for a live token: OAuthCreateRequest
$request->client_id = $credentials['client_id'];
$request->client_secret = $credentials['client_secret'];
$request->code = getenv('CODE');
$request->redirect_uri = $credentials['redirect_uri'];
$first = (new OAuthClient())->create($request);
$request = new OAuthRefreshRequest();
$request->client_id = $credentials['client_id'];
$request->client_secret = $credentials['client_secret'];
$request->refresh_token = $first->refresh_token;
echo 'tokens: ', json_encode($first->live_mode), ' ', substr((new OAuthClient())->refresh($request)->access_token, 0, 5), "\n";

$list = MercadoPagoConfig::getHttpClient()->send(
    new MPRequest('/terminals/v1/list', 'GET', null, ["Authorization: Bearer $token"]));
echo 'terminals: ', $list->getContent()['data']['terminals'][0]['operating_mode'], "\n";

$inbox = MercadoPagoConfig::getHttpClient()->send(new MPRequest('/demo/inbox', 'GET', null, []))->getContent()['data'];
$delivery = end($inbox);
WebhookSignatureValidator::validate($delivery['headers']['x-signature'], $delivery['headers']['x-request-id'],
    strtolower($delivery['order_id']), $credentials['webhook']['secret'], 300);
echo "webhook: valid\n";
