-- What the load scripts share: the seed as Lua tables, and a summary as one line of JSON at the end.
seed = dofile(os.getenv("BENCH_SEED"))
failed = 0

function response_check(status, expected)
  if status ~= expected then
    failed = failed + 1
    if failed == 1 then io.stderr:write("status " .. status .. "\n") end
  end
end

local threads = {}
function setup(thread) table.insert(threads, thread) end

function done(summary, latency, requests)
  local refused = 0
  for _, thread in ipairs(threads) do refused = refused + thread:get("failed") end
  local errors = summary.errors
  io.write(string.format(
    '\nSUMMARY {"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "refused": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, refused,
    errors.connect + errors.read + errors.write + errors.timeout))
end
