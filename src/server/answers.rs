//! What a connection needs of those who answer: the gate of the API, and the desk of the admin listener.

use std::net::IpAddr;

use hyper::http::request::Parts;

use super::stream::Work;
use crate::api::{Answer, ApiError};
use crate::clock::Timestamp;
use crate::http::RequestBody;

/// Who answers the requests of a connection.
pub(crate) trait Answers {
    /// The answer to one request from this address. It MUST say when the work is done, and before that read what is left of a
    /// small body ([`RequestBody::drain`]).
    async fn answer(
        &self,
        head: Parts,
        body: &mut RequestBody,
        peer: IpAddr,
        work: Work<'_>,
    ) -> Answer;

    /// An answer to this address where there is no request: too many connections, or a head that never ended.
    /// Nobody knows what was going to be asked, so it carries all that any answer does.
    fn unasked(&self, error: &ApiError, peer: IpAddr) -> Answer;

    /// What time it is, for the `Date` of such an answer.
    fn now(&self) -> Timestamp;

    /// Called once, on the thread that will ask for answers.
    async fn begin(&self) {}

    /// Told of each connection that is served.
    fn accepted(&self) {}

    /// Told when such a connection has ended.
    fn closed(&self) {}
}
