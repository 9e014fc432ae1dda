//! Orders: the list, and placing, completing and cancelling one.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::pets::{CURSOR_SOURCE, with_next};
use super::{Admin, AdminCall, ApiResult, invalid, query, respond_json as respond};
use crate::admin::off_thread::off_thread;
use crate::api::query::parse_order_query;
use crate::order::{Order, OrderId};
use crate::page::Scope;
use crate::pet::PetId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PlaceOrder {
    pet_id: i64,
    ship_date: Option<String>,
}

impl Admin {
    /// All orders, cancelled ones too, or those in one state, as `orders list` lists them.
    pub(super) async fn list_orders(&self, call: &AdminCall<'_>) -> ApiResult {
        let query = parse_order_query(call.head.query, CURSOR_SOURCE)?;
        let state = query::order_state(call.head.query)?;
        let store = Arc::clone(self.store());
        // Those in a rare state may be far apart.
        let (orders, next) =
            off_thread(async move || store.all_orders_page(query, state).await).await?;
        let response = respond(StatusCode::OK, &orders.iter().map(Order::report).collect());
        Ok(with_next(response, next, Scope::Orders))
    }

    pub(super) async fn place_order(&self, call: &mut AdminCall<'_>) -> ApiResult {
        let body: PlaceOrder = self.read(call).await?;
        let ship_date = body.ship_date.map(|text| text.parse()).transpose();
        let ship_date = ship_date.map_err(|error| invalid("shipDate", error))?;
        let placed = self
            .store()
            .place_order(PetId(body.pet_id), ship_date, call.now);
        let order = placed.await??;
        log_change("order placed", &order, call);
        Ok(respond(StatusCode::CREATED, &order.report()))
    }

    pub(super) async fn complete_order(&self, id: OrderId, call: &AdminCall<'_>) -> ApiResult {
        let order = self.store().complete_order(id, call.now).await??;
        log_change("order completed", &order, call);
        Ok(respond(StatusCode::OK, &order.report()))
    }

    pub(super) async fn cancel_order(&self, id: OrderId, call: &AdminCall<'_>) -> ApiResult {
        let order = self.store().cancel_order(id, call.now).await??;
        log_change("order cancelled", &order, call);
        Ok(respond(StatusCode::OK, &order.report()))
    }
}

fn log_change(done: &'static str, order: &Order, call: &AdminCall<'_>) {
    call.log(done, &format!("order {}, animal {}", order.id, order.pet));
}
