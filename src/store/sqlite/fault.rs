//! The broken variants of this engine, which the tests must catch. In a build without faults every hook does nothing.

use std::time::Duration;

use crate::fault::Fault;
use crate::pet::NewPet;

/// Panics at an animal called `writer, die`.
#[expect(clippy::panic, reason = "a death that a test asked for")]
pub(super) fn die_at(pet: &NewPet) {
    if Fault::WriterDies.is_on() && pet.name.as_str() == "writer, die" {
        panic!("the writer dies");
    }
}

/// Acknowledges writes before they are committed.
pub(super) fn acknowledge_early<T>(written: &mut Vec<T>, acknowledge: impl Fn(T)) {
    if Fault::AckBeforeCommit.is_on() {
        written.drain(..).for_each(acknowledge);
        std::thread::sleep(Duration::from_millis(5));
    }
}
