//! Transport: what a request and a response are made of, below the services that respond. Knows no route, no key, no store.

pub mod content;
pub mod request_body;

pub use content::Content;
pub use request_body::RequestBody;
