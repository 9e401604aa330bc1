require 'json'
require 'mercadopago'
require 'mercadopago/webhook/validator' # not loaded by the line above

CREDENTIALS = JSON.parse(File.read('.paydesk/credentials.json'))
TOKEN = CREDENTIALS['test']['access_token']

class Paydesk < Mercadopago::HttpClient
  private

  def execute(method, url, **options)
    super(method, url.sub('https://api.mercadopago.com', CREDENTIALS['base_url']), **options) # over https: tls_base_url
  end
end

sdk = Mercadopago::SDK.new(TOKEN, http_client: Paydesk.new)
orders = sdk.order

def with(headers) = Mercadopago::RequestOptions.new(access_token: TOKEN, custom_headers: headers)

create = lambda do |terminal, amount|
  body = { type: 'point', external_reference: 'ruby-1', transactions: { payments: [{ amount: amount }] },
           config: { point: { terminal_id: terminal } } }
  orders.create(body, request_options: with('X-Idempotency-Key' => SecureRandom.uuid))[:response]
end
ended = lambda do |id|
  60.times do
    order = orders.get(id)[:response]
    break order unless %w[created at_terminal].include?(order['status'])
    sleep 0.5
  end
end

order = ended.call(create.call(CREDENTIALS['terminals'].first['id'], '24.90')['id'])
puts "create: #{order['status']}"
part = { transactions: [{ id: order['transactions']['payments'][0]['id'], amount: '4.90' }] }
puts "refund a part: #{orders.refund(order['id'], refund_data: part)[:response]['status_detail']}"
puts "refund the rest: #{orders.refund(order['id'])[:response]['status']}"

id = create.call(CREDENTIALS['terminals'].last['id'], '10.00')['id']
orders.cancel(id, request_options: with('X-Allow-Cancelable-Status' => 'at_terminal')).raise_for_status!
puts "cancel: #{ended.call(id)['status']}"

begin
  orders.create({ type: 'point' }).raise_for_status!
rescue Mercadopago::MercadoPagoError => e
  puts "error: #{e.status_code} #{e.error} #{e.message}"
end
found = orders._get(uri: '/v1/orders', filters: { external_reference: 'ruby-1', limit: 10 })[:response]
puts "search: #{found['data'][0]['external_reference']}"
terminals = orders._get(uri: '/terminals/v1/list')[:response]['data']['terminals']
puts "terminals: #{terminals[0]['operating_mode']}"

application = { client_id: CREDENTIALS['client_id'], client_secret: CREDENTIALS['client_secret'] }
first = sdk.oauth.create(application.merge(grant_type: 'authorization_code', code: ENV.fetch('CODE'),
                                           redirect_uri: CREDENTIALS['redirect_uri'], test_token: true))[:response]
refreshed = sdk.oauth.refresh(application.merge(grant_type: 'refresh_token', refresh_token: first['refresh_token']))
puts "tokens: #{first['live_mode']} #{refreshed[:response]['access_token'][0, 5]}"

delivery = orders._get(uri: '/demo/inbox')[:response]['data'].last
Mercadopago::Webhook::Validator.validate(
  delivery['headers']['x-signature'], delivery['headers']['x-request-id'], delivery['order_id'].downcase,
  CREDENTIALS['webhook']['secret'], tolerance_seconds: 300
)
puts 'webhook: valid'
