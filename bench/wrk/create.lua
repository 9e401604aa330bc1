-- Creates, each with a key of its own on a free terminal of its own.
dofile(os.getenv("BENCH_FOLDER") .. "/common.lua")
local number = tonumber(os.getenv("BENCH_FIRST"))
local headers = {["Authorization"] = "Bearer " .. seed.access_token, ["Content-Type"] = "application/json"}
local body = '{"type":"point","external_reference":"ext_ref_1234","description":"Smartphone","transactions":{"payments":'
  .. '[{"amount":"24.90"}]},"config":{"point":{"terminal_id":"NEWLAND_N950__N%d","print_on_terminal":"no_ticket"}}}'

function request()
  number = number + 1
  if number == seed.terminals then io.stderr:write("The free terminals are used up: seed more, --terminals N.\n") end
  headers["X-Idempotency-Key"] = "key-" .. number
  return wrk.format("POST", "/v1/orders", headers, string.format(body, 100000000 + number))
end

-- At less than full load each connection pauses before a request, for that time on average.
local pause_ms = tonumber(os.getenv("BENCH_PAUSE_MS"))
if pause_ms and pause_ms > 0 then
  function delay() return math.random(0, 2 * pause_ms) end
end

function response(status) response_check(status, 201) end
