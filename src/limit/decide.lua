-- Ban, minute and day of one API key, decided in one step: nothing runs between the reading and the writing.
-- The same rules as limit/memory.rs and limit/ban.rs, which say why; this file only adds what several nodes need.
--
-- KEYS[1]  what is known of the key: as many numbers as STATE says. It expires by itself
-- ARGV[1]  what is asked: as many as QUESTION says. Times are in milliseconds, and zero where there is none
-- returns  the ruling: as many as RULING says

local QUESTION, STATE, RULING = '>i8i8i8i8i8i8i8i8i8i8i8i8', '>i8i8i8i8i8i8i8i8', '>i8i8i8i8i8i8i8i8'
local ADMITTED, USED_UP, BANNED, NEWLY_BANNED = 0, 1, 2, 3
local MINUTE, DAY, HOUR = 60000, 86400000, 3600000

-- The time, unless this server's clock shall tell it; the limits; refusals that are forgiven, and the length of a first ban; and what the
-- asking node knows: number and use of its minute and of its day, the last ban, the last pardon.
local now, per_minute, per_day, forgiven, first_ban,
    known_minute, known_in_minute, known_day, known_in_day, known_banned_at, known_banned_until, known_pardoned =
    struct.unpack(QUESTION, ARGV[1])
if now == 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local minute, in_minute, day, in_day, refusals, banned_at, banned_until, pardoned = 0, 0, 0, 0, 0, 0, 0, 0
local state = redis.pcall('GET', KEYS[1])
-- Anything else that stands there was not written here, and is written over.
if type(state) == 'string' and #state == struct.size(STATE) then
    minute, in_minute, day, in_day, refusals, banned_at, banned_until, pardoned = struct.unpack(STATE, state)
end

-- A clock that steps back stays in the window it had reached. One that is more than one ahead cannot be true: it becomes the
-- present one, with its count.
local this_minute, this_day = math.floor(now / MINUTE), math.floor(now / DAY)
if this_minute > minute then
    minute, in_minute, refusals = this_minute, 0, 0
elseif minute > this_minute + 1 then
    minute = this_minute
end
if this_day > day then
    day, in_day = this_day, 0
elseif day > this_day + 1 then
    day = this_day
end

-- What a node knows and this server has forgotten: it was restarted, or was away for a while.
if known_minute == minute then
    in_minute = math.max(in_minute, known_in_minute)
end
if known_day == day then
    in_day = math.max(in_day, known_in_day)
end

-- A pardon is obeyed once, by whichever node hears of it first; one that has not heard yet must not bring the ban back.
if known_pardoned > pardoned then
    pardoned, refusals = known_pardoned, 0
    if banned_at <= pardoned then
        banned_at, banned_until = 0, 0
    end
end

-- A ban that a clock which ran ahead has dated into the future begins now: it never holds longer than its length from now.
if banned_at > now then
    banned_at, banned_until = now, now + banned_until - banned_at
end
-- What a node still knows of, after it has heard of the last pardon, came after that, whatever their dates. A ban from the future
-- may be the one that holds already.
if known_banned_at > banned_at and (known_pardoned >= pardoned or known_banned_at > pardoned)
    and (known_banned_at <= now or now >= banned_until) then
    local length = known_banned_until - known_banned_at
    banned_at, refusals = math.min(known_banned_at, now), 0
    banned_until = banned_at + length
end

local verdict
if now < banned_until then
    verdict = BANNED
elseif in_minute < per_minute and in_day < per_day then
    in_minute, in_day, verdict = in_minute + 1, in_day + 1, ADMITTED
elseif forgiven > 0 and refusals >= forgiven then
    local length = first_ban
    if banned_at > 0 and now < banned_at + DAY then
        length = math.max(first_ban, math.min(2 * (banned_until - banned_at), HOUR))
    end
    banned_at, banned_until, refusals, verdict = now, now + length, 0, NEWLY_BANNED
else
    refusals, verdict = refusals + 1, USED_UP
end

-- A ban is remembered for a day at least, and one that lasts longer is told again by every node; nothing else lasts beyond this day.
state = struct.pack(STATE, minute, in_minute, day, in_day, refusals, banned_at, banned_until, pardoned)
redis.call('SET', KEYS[1], state, 'PX', (day + 2) * DAY - now)
return struct.pack(RULING, now, verdict, minute, in_minute, day, in_day, banned_at, banned_until)
