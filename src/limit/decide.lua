-- Ban, minute and day of one API key, decided in one step: nothing runs between the reading and the writing.
-- The same rules as limit/window.rs, limit/memory.rs and limit/ban.rs, which have the reasons; this file only adds the rules for several nodes.
--
-- KEYS[1]  the state of the key: numbers in the format STATE. It expires by itself
-- ARGV[1]  the request: numbers in the format REQUEST. Times are in milliseconds, and zero if there is none
-- returns  the decision: numbers in the format REPLY

local REQUEST, STATE, REPLY = '>i8i8i8i8i8i8i8i8i8i8i8i8', '>i8i8i8i8i8i8i8i8', '>i8i8i8i8i8i8i8i8'
local ADMITTED, RATE_LIMITED, BANNED, NEWLY_BANNED = 0, 1, 2, 3
local MINUTE, DAY, HOUR = 60000, 86400000, 3600000

-- The time, or zero for Redis's own; the limits; the rejections in a minute that do not result in a ban (zero: no new bans), and the
-- duration of a first ban; and the state of the requesting node: number and count of its minute and of its day, the last ban, the
-- last unban.
local now, per_minute, per_day, max_rejections, first_ban,
    node_minute, node_in_minute, node_day, node_in_day, node_banned_at, node_banned_until, node_unbanned_at =
    struct.unpack(REQUEST, ARGV[1])
if now == 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local minute, in_minute, day, in_day, rejections, banned_at, banned_until, unbanned_at = 0, 0, 0, 0, 0, 0, 0, 0
local state = redis.pcall('GET', KEYS[1])
-- A value of another type or size was not written by this script, and is overwritten. Any other error is returned: the user may lack the
-- privilege to read.
if type(state) == 'string' and #state == struct.size(STATE) then
    minute, in_minute, day, in_day, rejections, banned_at, banned_until, unbanned_at = struct.unpack(STATE, state)
elseif type(state) == 'table' and not state.err:find('^WRONGTYPE') then
    return state
end

-- If the clock steps back, the counter stays in the window it had reached. Only a clock that ran ahead and has been corrected since can have
-- reached a window that is more than one ahead: it becomes the current window, with its count.
local this_minute, this_day = math.floor(now / MINUTE), math.floor(now / DAY)
if this_minute > minute then
    minute, in_minute, rejections = this_minute, 0, 0
elseif minute > this_minute + 1 then
    minute = this_minute
end
if this_day > day then
    day, in_day = this_day, 0
elseif day > this_day + 1 then
    day = this_day
end

-- Counts that a node has and Redis has lost: it was restarted, or temporarily unavailable.
if node_minute == minute then
    in_minute = math.max(in_minute, node_in_minute)
end
if node_day == day then
    in_day = math.max(in_day, node_in_day)
end

-- An unban is applied once, by the first node that has read it; a node that has not must not bring the ban back.
if node_unbanned_at > unbanned_at then
    unbanned_at, rejections = node_unbanned_at, 0
    if banned_at <= unbanned_at then
        banned_at, banned_until = 0, 0
    end
end

-- A ban whose start is in the future because a clock ran ahead begins now: it is never active for longer than its length from now.
if banned_at > now then
    banned_at, banned_until = now, now + banned_until - banned_at
end
-- A ban that a node still has after it read the last unban came after that, whatever their dates. A ban from the future may be the
-- one that is already active.
if node_banned_at > banned_at and (node_unbanned_at >= unbanned_at or node_banned_at > unbanned_at)
    and (node_banned_at <= now or now >= banned_until) then
    local length = node_banned_until - node_banned_at
    banned_at, rejections = math.min(node_banned_at, now), 0
    banned_until = banned_at + length
end

local admission
if now < banned_until then
    admission = BANNED
elseif in_minute < per_minute and in_day < per_day then
    in_minute, in_day, admission = in_minute + 1, in_day + 1, ADMITTED
elseif max_rejections > 0 and rejections >= max_rejections then
    local length = first_ban
    if banned_at > 0 and now < banned_at + DAY then
        length = math.max(first_ban, math.min(2 * (banned_until - banned_at), HOUR))
    end
    banned_at, banned_until, rejections, admission = now, now + length, 0, NEWLY_BANNED
else
    rejections, admission = rejections + 1, RATE_LIMITED
end

-- A ban is kept for a day at least, because the duration of the next one depends on it; nothing else is needed after this day.
state = struct.pack(STATE, minute, in_minute, day, in_day, rejections, banned_at, banned_until, unbanned_at)
redis.call('SET', KEYS[1], state, 'PX', (day + 2) * DAY - now)
return struct.pack(REPLY, now, admission, minute, in_minute, day, in_day, banned_at, banned_until)
