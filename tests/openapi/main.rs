//! The OpenAPI document and the server, held against each other: the document to the server here, the server to the
//! document by the client of the harness, which knows it and looks at every response of every test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod document;
mod every_status;
mod linters;
mod schemathesis;
