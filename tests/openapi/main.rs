//! The OpenAPI document and the server, compared with each other: the document with the server here, the server with the
//! document by the client of the harness, which checks every response of every test.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod document;
mod every_status;
mod linters;
mod schemathesis;
