-- sysbench's oltp_update_non_index with a log of transactions in the form of pgbench's:
-- client number took_us 0 seconds microseconds
require("oltp_update_non_index")
local ffi = require("ffi")
ffi.cdef [[
struct commits_time { long seconds, microseconds; };
int gettimeofday(struct commits_time *time, void *zone);
]]
sysbench.cmdline.options.log = {"Directory of the logs, a file a connection", ""}

local time = ffi.new("struct commits_time")
local function now()
   ffi.C.gettimeofday(time, nil)
   return tonumber(time.seconds), tonumber(time.microseconds)
end

local connect, update, disconnect = thread_init, event, thread_done
local log, number

function thread_init()
   connect()
   number = 0
   log = assert(io.open(sysbench.opt.log .. "/log." .. sysbench.tid, "w"))
end

function event()
   local seconds, us = now()
   update()
   local at, at_us = now()
   local took = (at - seconds) * 1000000 + at_us - us
   number = number + 1
   log:write(string.format("%d %d %d 0 %d %d\n", sysbench.tid, number, took, at, at_us))
end

function thread_done()
   assert(log:close())
   disconnect()
end
