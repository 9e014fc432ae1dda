-- Ban, minute and day of one API key, decided in one step: nothing runs between the reading and the writing.
-- The same rules as limit/memory.rs and limit/ban.rs, which say why; this file only adds what several nodes need.
--
-- KEYS[1]  the key's hash, which expires by itself
-- ARGV     1      the time in milliseconds, or nothing: then it is this server's, and the same for all nodes
--          2, 3   what the key may use in a minute and in a day
--          4, 5   refusals that are forgiven, and the length of a first ban in milliseconds
--          6 to 9 what the asking node knows was used: number and use of its minute, number and use of its day
--          10, 11 the last ban that it knows, and 12 the last pardon; zero where there is none
-- returns  as text: the time, the verdict (0 admitted, 1 used up, 2 banned, 3 banned by this request), number and use of the minute,
--          number and use of the day, and the last ban

local MINUTE, DAY, HOUR = 60000, 86400000, 3600000

local now = tonumber(ARGV[1])
if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local per_minute, per_day = tonumber(ARGV[2]), tonumber(ARGV[3])
local forgiven, first_ban = tonumber(ARGV[4]), tonumber(ARGV[5])

local state = redis.call('HMGET', KEYS[1], 'minute', 'in_minute', 'day', 'in_day', 'refusals', 'banned_at', 'banned_until', 'pardoned')
for place = 1, 8 do
    state[place] = tonumber(state[place]) or 0
end
local minute, in_minute, day, in_day, refusals, banned_at, banned_until, pardoned = unpack(state)

-- A clock that steps back stays in the window it had reached.
local this_minute, this_day = math.floor(now / MINUTE), math.floor(now / DAY)
if this_minute > minute then
    minute, in_minute, refusals = this_minute, 0, 0
end
if this_day > day then
    day, in_day = this_day, 0
end

-- What a node knows and this server has forgotten: it was restarted, or was away for a while.
if tonumber(ARGV[6]) == minute then
    in_minute = math.max(in_minute, tonumber(ARGV[7]))
end
if tonumber(ARGV[8]) == day then
    in_day = math.max(in_day, tonumber(ARGV[9]))
end

-- A pardon is obeyed once, by whichever node hears of it first; one that has not heard yet must not bring the ban back.
if tonumber(ARGV[12]) > pardoned then
    pardoned = tonumber(ARGV[12])
    if banned_at > 0 and banned_at <= pardoned then
        banned_at, banned_until, refusals = 0, 0, 0
    end
end
if tonumber(ARGV[10]) > math.max(banned_at, pardoned) then
    banned_at, banned_until = tonumber(ARGV[10]), tonumber(ARGV[11])
end

local verdict
if now < banned_until then
    verdict = 2
elseif in_minute < per_minute and in_day < per_day then
    in_minute, in_day, verdict = in_minute + 1, in_day + 1, 0
elseif forgiven > 0 and refusals >= forgiven then
    local length = first_ban
    if banned_at > 0 and now < banned_at + DAY then
        length = math.max(first_ban, math.min(2 * (banned_until - banned_at), HOUR))
    end
    banned_at, banned_until, refusals, verdict = now, now + length, 0, 3
else
    refusals, verdict = refusals + 1, 1
end

redis.call('HSET', KEYS[1], 'minute', minute, 'in_minute', in_minute, 'day', day, 'in_day', in_day,
    'refusals', refusals, 'banned_at', banned_at, 'banned_until', banned_until, 'pardoned', pardoned)
-- A ban is remembered for a day; nothing else lasts beyond this one.
redis.call('PEXPIRE', KEYS[1], (day + 2) * DAY - now)
-- In one piece: eight numbers are dearer to read than a text that holds them.
return table.concat({ now, verdict, minute, in_minute, day, in_day, banned_at, banned_until }, ' ')
