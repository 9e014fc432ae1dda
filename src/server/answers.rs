//! What a connection needs of those who answer: the gate of the API, and the desk of the admin listener.

use std::convert::Infallible;
use std::net::IpAddr;

use hyper::Request;
use hyper::body::Incoming;

use super::stream::Progress;
use crate::api::{Answer, ApiError};
use crate::clock::Timestamp;

/// Who answers the requests of a connection.
pub(crate) trait Answers {
    /// The answer to one request from this address. It MUST say when the work is done; before that read what is left of a small
    /// body ([`RequestBody::drain`](crate::http::RequestBody::drain)), and [`Progress::finish`] the answer. All of it in one
    /// future: one around another is copied with it, for each request (3 % of the instructions of a list).
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        progress: &Progress,
    ) -> Result<Answer, Infallible>;

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
