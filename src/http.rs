//! Transport: what a request and a response are made of, below the services that respond. Knows no route, no key, no store.

pub mod compact;
pub mod content;
pub mod request_body;

pub use compact::compact;
pub use content::Content;
pub use request_body::RequestBody;
