//! A faulty variant that the test of exact limits must catch: other nodes can count between the read and the write.

use redis::RedisResult;

use super::connection::RedisConnection;
use super::script::{DecisionRequest, Script};
use crate::clock::Timestamp;
use crate::limit::decision::SharedDecision;
use crate::limit::window::Windows;

impl Script {
    pub(super) async fn read_then_write(
        &self,
        connection: &mut RedisConnection,
        request: &DecisionRequest,
    ) -> RedisResult<SharedDecision> {
        let name = self.redis_key(request);
        let (seconds, micros): (i64, i64) = connection.query(&redis::cmd("TIME")).await?;
        let now = Timestamp::from_millis(seconds * 1000 + micros / 1000);
        let minute = now.as_millis() / 60_000;
        let fields = ["minute", "in_minute"];
        let read: (Option<i64>, Option<u32>) = connection
            .query(redis::cmd("HMGET").arg(&name).arg(&fields))
            .await?;
        let used = read.1.filter(|_| read.0 == Some(minute)).unwrap_or(0);
        let admitted = used < request.limits.per_minute();
        let used = used + u32::from(admitted);
        let write = [("minute", minute), ("in_minute", used.into())];
        let () = connection
            .query(redis::cmd("HSET").arg(&name).arg(&write))
            .await?;
        Ok(SharedDecision {
            now,
            admitted,
            is_new_ban: false,
            windows: Windows::at((minute, used), (now.as_millis() / 86_400_000, used)),
            ban: None,
            unban_known: None,
        })
    }
}
