//! The dashboard with IDs that a JavaScript number cannot hold: 2⁵³ + 1 would be rounded to that of the animal before it.

use std::fs;

use harness::{Client, run};
use serde_json::json;

use crate::PROGRAM;
use crate::dashboard::{Dashboard, TOKEN};

#[test]
fn the_dashboard_changes_and_orders_the_animal_with_exactly_this_id() {
    let dashboard = Dashboard::logged_in();
    let browser = &dashboard.browser;
    let large = "9007199254740993";
    let animals = format!(
        "id,name,categoryId,status\n9007199254740992,before,1,available\n{large},\"\"\"1\"\" 0123456789012345678\",{large},available\n"
    );
    let file = dashboard.folder.path().join("animals.csv");
    fs::write(&file, animals).expect("a file");
    let words = ["pets", "import", "--keep-ids", "animals.csv"];
    run(PROGRAM, dashboard.folder.path(), &words).exits(0);
    let operator = Client::new(dashboard.server.admin, Some(TOKEN.into()));
    let pets = || operator.get("/api/pets").json();

    dashboard.show("#animals");
    let row = format!("#animal-{large}");
    let shown = browser.wait_for(&row, "available");
    assert!(
        shown.contains("\"1\" 0123456789012345678"),
        "the name: {shown}"
    );
    let category = browser.text(&format!("{row} td:nth-child(5)"));
    assert_eq!(category, large);
    let range = "IDs 9,007,199,254,740,992 to 9,007,199,254,740,993";
    browser.wait_for("#animals-range", range);

    browser.click(&format!("[aria-label='Set status of animal {large}']"));
    browser.run(
        "document.querySelector('#field-status').value = 'sold'",
        json!([]),
    );
    browser.click("#dialog-submit");
    browser.wait_for(&row, "sold");
    assert_eq!(
        (&pets()[0]["status"], &pets()[1]["status"]),
        (&json!("available"), &json!("sold"))
    );

    let set = json!({"status": "available"});
    let path = format!("/api/pets/{large}/status");
    operator.request("POST", &path).json(&set).send();
    dashboard.show("#now");
    dashboard.show("#animals");
    browser.wait_for(&row, "available");
    browser.click(&format!("[aria-label='Place order for animal {large}']"));
    browser.fill("#field-shipDate", "2999-12-24");
    browser.click("#dialog-submit");
    browser.wait_for(&row, "pending");
    let orders = operator.get("/api/orders").json();
    assert_eq!(orders[0]["petId"], 9_007_199_254_740_993_i64, "{orders}");
    assert_eq!(orders[0]["shipDate"], "2999-12-24T00:00:00Z", "{orders}");
    dashboard.show("#orders");
    browser.wait_for("#orders", large);
    dashboard.has_no_console_errors();
}
