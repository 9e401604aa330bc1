-- Polls of terminals that have nothing to do, without waiting.
dofile(os.getenv("BENCH_FOLDER") .. "/common.lua")
local requests, number = {}, 0

function init()
  for place, device in ipairs(seed.devices) do
    local headers = {["Authorization"] = "Bearer " .. device.token}
    requests[place] = wrk.format("GET", "/device/v1/next?wait=0&boot_id=" .. device.boot_id, headers)
  end
end

function request()
  number = number % #requests + 1
  return requests[number]
end

function response(status) response_check(status, 204) end
