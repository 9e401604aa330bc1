-- Token families: each response's refresh token is sent in the next request. Expects `format_refresh(token)`.
local free, first, last = {}, 1, 0

local function put(token)
  last = last + 1
  free[last] = token
end

function init()
  -- Each run has its own families: those of earlier runs are rotated.
  local run = tonumber(os.getenv("BENCH_RUN"))
  local count = seed.families_per_run
  for place = run * count + 1, (run + 1) * count do put(seed.refresh_tokens[place]) end
end

function request()
  local token = free[first]
  -- Without a free family the request is refused and counted as an error.
  if token == nil then return format_refresh("none") end
  free[first] = nil
  first = first + 1
  return format_refresh(token)
end

function response(status, _, answer)
  response_check(status, 200)
  local token = answer:match('"refresh_token":"([^"]+)"')
  if token then put(token) end
end
