-- The no-op route.
dofile(os.getenv("BENCH_FOLDER") .. "/common.lua")

function request() return wrk.format("GET", "/noop") end

function response(status) response_check(status, 200) end
