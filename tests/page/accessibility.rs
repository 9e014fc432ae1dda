//! Checks of accessibility: what axe finds, and elements that overlap.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::browser::Browser;

/// What axe finds at the levels A and AA.
pub(crate) fn violations(browser: &Browser) -> Value {
    let modules = std::env::var("ANIMAL_STORE_NODE_MODULES")
        .expect("run this through ./test page, which installs axe-core");
    let axe = Path::new(&modules).join("axe-core/axe.min.js");
    let axe = fs::read_to_string(axe).expect("axe-core");
    let levels = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
    // Once for each page that is loaded.
    browser.run(&format!("if (!window.axe) {{{axe}}}"), json!([]));
    let script = "return axe.run(document, {runOnly: arguments[0], resultTypes: ['violations']}).then(found => \
                  found.violations.map(rule => [rule.id, rule.nodes.map(node => node.html)]))";
    browser.run(script, json!([levels]))
}

/// Elements that overlap, or extend beyond the right edge.
pub(crate) const MISPLACED: &str = r"
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push('the page scrolls sideways');
    for (const parent of document.querySelectorAll('header, .page, main, main *:not(pre, pre *), dialog, dialog *')) {
        const boxes = [...parent.children]
            .filter(child => child.checkVisibility() && !['absolute', 'fixed', 'sticky'].includes(getComputedStyle(child).position))
            .flatMap(child => [...child.getClientRects()].map(box => [child, box]))
            .filter(([, box]) => box.width > 1 && box.height > 1);
        for (const [one, a] of boxes) for (const [other, b] of boxes) {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (one !== other && across > 2 && down > 6) found.push(`${one.outerHTML.slice(0, 80)} over ${other.outerHTML.slice(0, 80)}`);
        }
    }
    return found";

#[track_caller]
pub(crate) fn is_accessible(browser: &Browser, state: &str) {
    let viewports = [
        (1440, "light"),
        (768, "light"),
        (360, "light"),
        (360, "dark"),
        (1440, "dark"),
    ];
    is_accessible_in(browser, state, &viewports);
}

/// The same for a state that differs from another one in a small part.
#[track_caller]
pub(crate) fn is_accessible_too(browser: &Browser, state: &str) {
    is_accessible_in(browser, state, &[(1440, "light"), (360, "dark")]);
}

#[track_caller]
fn is_accessible_in(browser: &Browser, state: &str, viewports: &[(u32, &str)]) {
    for &(width, scheme) in viewports {
        browser.set_viewport(width, 900, scheme);
        let found = browser.run(MISPLACED, json!([]));
        assert_eq!(found, json!([]), "{state}, {width} pixels");
        // The colours of a scheme are the same in every width.
        if scheme == "dark" || width == 1440 {
            let found = violations(browser);
            assert_eq!(found, json!([]), "{state}, {width} pixels, {scheme}");
        }
    }
    browser.set_viewport(1440, 900, "light");
}
