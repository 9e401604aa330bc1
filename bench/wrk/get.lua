-- Gets of orders that exist, one after the other.
dofile(os.getenv("BENCH_FOLDER") .. "/common.lua")
local requests, number = {}, 0
local headers = {["Authorization"] = "Bearer " .. seed.access_token}

function init()
  for place, order_id in ipairs(seed.orders) do
    requests[place] = wrk.format("GET", "/v1/orders/" .. order_id, headers)
  end
end

function request()
  number = number % #requests + 1
  return requests[number]
end

function response(status) response_check(status, 200) end
