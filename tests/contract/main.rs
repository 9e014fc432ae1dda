//! Every sentence of the contract, and what was decided where it leaves something open, over a real socket.
//! Each test is named by the sentence it proves.

mod authentication;
mod body;
mod cors;
mod creating;
mod deprecation;
mod failures;
mod filter;
mod freshness;
mod getting;
mod head;
mod idempotency;
mod links;
mod listing;
mod paging;
mod parameters;
mod paths;
mod pet_rules;
mod public_pages;
mod request_form;
mod request_id;

use serde_json::{Value, json};

/// A valid animal.
fn rex() -> Value {
    json!({"name": "Rex", "categoryId": 7, "status": "pending"})
}
