//! What is told to the script, and what it answers.

use redis::{Cmd, FromRedisValue, ParsingError, RedisResult, Value};

use super::wire::Wire;
use crate::clock::Timestamp;
use crate::limit::Ban;
use crate::limit::window::Windows;
use crate::plan::Limits;

/// What one node knows of a key.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its windows.
    pub windows: Windows,
    /// Its last ban.
    pub ban: Option<Ban>,
    /// When an operator last pardoned it.
    pub pardoned: Option<Timestamp>,
}

impl Known {
    /// Appends it to the arguments.
    pub(super) fn tell(&self, call: &mut Cmd) {
        for window in [&self.windows.minute, &self.windows.day] {
            call.arg(window.number()).arg(window.used());
        }
        let time = |time: Option<Timestamp>| time.map_or(0, Timestamp::as_millis);
        call.arg(time(self.ban.map(|ban| ban.began)))
            .arg(time(self.ban.map(|ban| ban.until)))
            .arg(time(self.pardoned));
    }
}

/// What was decided, for all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Ruling {
    /// The time it was decided at, by the clock that counts.
    pub now: Timestamp,
    /// Whether the request was counted.
    pub admitted: bool,
    /// Whether it brought on the ban.
    pub is_new_ban: bool,
    /// The windows after it.
    pub windows: Windows,
    /// The last ban, running or over.
    pub ban: Option<Ban>,
}

impl FromRedisValue for Ruling {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let Value::BulkString(text) = value else {
            return Err("a ruling is a text".into());
        };
        let text = str::from_utf8(&text).map_err(|_| "a ruling is a text")?;
        let mut numbers = text.split(' ').map(str::parse);
        let mut all = [0; 8];
        for place in &mut all {
            let number = numbers.next().and_then(Result::ok);
            *place = number.ok_or("a ruling has eight numbers")?;
        }
        let [now, verdict, minute, in_minute, day, in_day, began, until] = all;
        let used = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let [now, began, until] = [now, began, until].map(Timestamp::from_millis);
        Ok(Self {
            now,
            admitted: verdict == 0,
            is_new_ban: verdict == 3,
            windows: Windows::at((minute, used(in_minute)), (day, used(in_day))),
            ban: (began > Timestamp::default()).then_some(Ban { began, until }),
        })
    }
}

/// The broken variant that the test of exact limits must catch: others may count between the reading and the writing.
pub(super) async fn read_then_write(
    wire: &mut Wire,
    name: &str,
    limits: Limits,
) -> RedisResult<Ruling> {
    let (seconds, micros): (i64, i64) = wire.ask(&redis::cmd("TIME")).await?;
    let now = Timestamp::from_millis(seconds * 1000 + micros / 1000);
    let minute = now.as_millis() / 60_000;
    let fields = ["minute", "in_minute"];
    let read: (Option<i64>, Option<u32>) =
        wire.ask(redis::cmd("HMGET").arg(name).arg(&fields)).await?;
    let used = read.1.filter(|_| read.0 == Some(minute)).unwrap_or(0);
    let admitted = used < limits.per_minute();
    let used = used + u32::from(admitted);
    let write = [("minute", minute), ("in_minute", used.into())];
    let () = wire.ask(redis::cmd("HSET").arg(name).arg(&write)).await?;
    Ok(Ruling {
        now,
        admitted,
        is_new_ban: false,
        windows: Windows::at((minute, used), (now.as_millis() / 86_400_000, used)),
        ban: None,
    })
}
