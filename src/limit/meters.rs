//! The meters of all keys, in blocks that are never moved or freed, so a request borrows its meter, and no reference count has to be
//! written. Keys are removed only if the database has lost them.

use std::sync::Mutex;

use super::Meter;
use crate::mutex::lock;

/// Meters in a block: 32 KiB.
const BLOCK_SIZE: usize = 256;

#[derive(Debug, Default)]
pub struct Meters {
    blocks: boxcar::Vec<Box<[Meter]>>,
    count: Mutex<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterIndex(usize);

impl Meters {
    /// Adds a meter that has counted nothing.
    pub fn add(&self) -> MeterIndex {
        let mut count = lock(&self.count);
        if count.is_multiple_of(BLOCK_SIZE) {
            self.blocks
                .push((0..BLOCK_SIZE).map(|_| Meter::default()).collect());
        }
        let index = MeterIndex(*count);
        *count += 1;
        index
    }

    pub fn get(&self, MeterIndex(index): MeterIndex) -> &Meter {
        &self.blocks[index / BLOCK_SIZE][index % BLOCK_SIZE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meter_has_two_separate_cache_lines() {
        let meters = Meters::default();
        let addresses: Vec<_> = (0..2 * BLOCK_SIZE + 1)
            .map(|_| std::ptr::from_ref(meters.get(meters.add())).addr())
            .collect();
        assert_eq!(size_of::<Meter>(), 128);
        assert!(addresses.iter().all(|address| address.is_multiple_of(128)));
        let distinct: std::collections::HashSet<_> = addresses.iter().collect();
        assert_eq!(distinct.len(), addresses.len());
        for (index, address) in addresses.iter().enumerate() {
            let found = std::ptr::from_ref(meters.get(MeterIndex(index))).addr();
            assert_eq!(found, *address);
        }
    }
}
