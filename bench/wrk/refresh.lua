-- Refreshes with real rotation.
dofile(os.getenv("BENCH_FOLDER") .. "/common.lua")
dofile(os.getenv("BENCH_FOLDER") .. "/families.lua")
local headers = {["Content-Type"] = "application/json"}
local body = '{"client_id":"' .. seed.client_id .. '","client_secret":"' .. seed.client_secret
  .. '","grant_type":"refresh_token","refresh_token":"%s"}'

function format_refresh(token) return wrk.format("POST", "/oauth/token", headers, string.format(body, token)) end
