-- Refreshes with real rotation: each answer's refresh token is the next request's.
dofile(os.getenv("BENCH_FOLDER") .. "/common.lua")
local headers = {["Content-Type"] = "application/json"}
local body = '{"client_id":"' .. seed.client_id .. '","client_secret":"' .. seed.client_secret
  .. '","grant_type":"refresh_token","refresh_token":"%s"}'
local free, first, last = {}, 1, 0

local function put(token)
  last = last + 1
  free[last] = token
end

function init()
  -- Each run has chains of its own: what an earlier one rotated is spent.
  local run = tonumber(os.getenv("BENCH_RUN"))
  local count = #seed.refresh_tokens / seed.refresh_runs
  for place = run * count + 1, (run + 1) * count do put(seed.refresh_tokens[place]) end
end

function request()
  local token = free[first]
  free[first] = nil
  first = first + 1
  return wrk.format("POST", "/oauth/token", headers, string.format(body, token))
end

function response(status, _, answer)
  response_check(status, 200)
  put(answer:match('"refresh_token":"([^"]+)"'))
end
